"""The authoring module: the module that a tool gets when it imports `sandbox`.

The engine sends the text of its own `sandbox/authoring.py` with its first message, so that every backend has the module
and no file of ours has to be in a box. The module comes before installed packages: in a box `sandbox` means the
authoring module, as the tool's author was promised. An installed package of that name is hidden, and a call whose tool
imports `sandbox` gets a warning with the place of the hidden one.

The text is compiled when a tool imports it. A box whose tools import it does so once, together with the other modules
to preload.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

NAME = "sandbox"
_IMPORT = r"^[ \t]*(?:import|from)[ \t]+%s\b" % NAME
_LOADER: Any = sys.modules["_frozen_importlib"]


class AuthoringFinder:
    """Finds and loads the module `sandbox`."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._hidden: str | None = None

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: ModuleType | None = None) -> Any:
        if name != NAME or path is not None:
            return None
        return _LOADER.ModuleSpec(NAME, self, origin="<the engine's authoring module>")

    def create_module(self, spec: Any) -> None:
        """Have Python create an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        self._hidden = self._other()
        exec(compile(self._source, "<sandbox>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, _: str) -> str:
        """Return the text, for tracebacks."""
        return self._source

    def warnings(self, source: str) -> list[str]:
        """Return the warnings for a call of a tool with that source."""
        if self._hidden is None:
            return []
        import re  # only where it is needed: the module is a good part of a runner's memory

        if not re.search(_IMPORT, source, re.MULTILINE):
            return []
        text = "in a box the module sandbox is the engine's authoring kit; the one in %s is hidden by it"
        return [text % self._hidden]

    def _other(self) -> str | None:
        """Return the origin of the hidden module, if there is one."""
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            found = finder.find_spec(NAME, None)
            if found is not None:
                return str(found.origin or "a folder without __init__")[:500]
        return None


_finder: AuthoringFinder | None = None


def offer(source: str) -> None:
    """Make the module available."""
    global _finder
    _finder = AuthoringFinder(source)
    sys.meta_path.insert(0, _finder)


def warnings(source: str) -> list[str]:
    """Return the warnings for a call of a tool with that source."""
    return _finder.warnings(source) if _finder else []
