"""The authoring kit: what a tool gets when it imports `sandbox`.

The engine sends the text of its own `sandbox/authoring.py` with what it says first, so that every backend has the kit
and no file of ours has to be in a box. It is looked for before anything that is installed: in a box `sandbox` means the
kit, as the tool's author was promised. An installed package of that name is hidden by that, and a call whose tool
imports `sandbox` is told so, with where the other one is.

Nothing is compiled before a tool asks for it. A box whose tools do import it has it imported once, with the rest of
what is preloaded.
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


class Kit:
    """Finds and loads the one module."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._hidden: str | None = None

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: ModuleType | None = None) -> Any:
        if name != NAME or path is not None:
            return None
        return _LOADER.ModuleSpec(NAME, self, origin="<the engine's authoring kit>")

    def create_module(self, spec: Any) -> None:
        """As any module is."""

    def exec_module(self, module: ModuleType) -> None:
        self._hidden = self._other()
        exec(compile(self._source, "<sandbox>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, _: str) -> str:
        """For tracebacks."""
        return self._source

    def warnings(self, source: str) -> list[str]:
        """What a call of a tool with that source has to be told."""
        if self._hidden is None:
            return []
        import re  # not for those who do not need it: it is a good part of a runner's memory

        if not re.search(_IMPORT, source, re.MULTILINE):
            return []
        text = "in a box the module sandbox is the engine's authoring kit; the one in %s is hidden by it"
        return [text % self._hidden]

    def _other(self) -> str | None:
        """Where the module would have come from without us."""
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            found = finder.find_spec(NAME, None)
            if found is not None:
                return str(found.origin or "a folder without __init__")[:500]
        return None


_kit: Kit | None = None


def offer(source: str) -> None:
    """Have it found from now on."""
    global _kit
    _kit = Kit(source)
    sys.meta_path.insert(0, _kit)


def warnings(source: str) -> list[str]:
    """What a call of a tool with that source has to be told."""
    return _kit.warnings(source) if _kit else []
