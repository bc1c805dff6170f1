"""What of a tool's imports is worth importing once, ahead of its calls.

That is what it imports when it is loaded, as far as that is in the standard library or in its environment. A source
says names and not what they are: `from scipy import stats` wants a module, `from numpy import array` none. So names
that could be modules of packages are looked for where the package lies, and only those that are there are imported. For
the standard library the engine's own is looked at; the box's may be a little older or newer, and what it has not is no
loss to anybody.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from sandbox.engine.rebuilt import needs_rebuilding
from sandbox.environments import Environment
from sandbox.tools import ToolDefinition

_ASYNC: Final = frozenset({"asyncio"})
_TYPING: Final = frozenset({"typing"})
_KIT: Final = frozenset({"sandbox"})
"""There in every box, whatever is installed."""
_WITH_EFFECTS: Final = frozenset(
    {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}
)
_MOST: Final = 256
_MOST_LOOKED_FOR: Final = 1024
_COMPILED: Final = (".so", ".pyd")


def preloadable(tool: ToolDefinition, *, environment: Environment | None = None) -> tuple[str, ...]:
    """The modules that the tool imports of the standard library and, if it is given, of its environment; packages
    before what is in them."""
    wanted = tool.imports | _ASYNC if tool.is_async else tool.imports
    return _preloadable(wanted | _TYPING if needs_rebuilding(tool) else wanted, environment)


@lru_cache(maxsize=1024)
def _preloadable(imports: frozenset[str], environment: Environment | None) -> tuple[str, ...]:
    roots = {name: _root_of(name, environment) for name in sorted(imports)}
    known = ((name, root) for name, root in roots.items() if root is not None)
    found = (name for name, root in islice(known, _MOST_LOOKED_FOR) if "." not in name or _is_module(name, root))
    return (*sorted(_KIT & imports), *islice(found, _MOST))


def _root_of(name: str, environment: Environment | None) -> Path | None:
    """The folder that the first part of a name is in; None for what we do not know, and what is not meant for us."""
    top = name.partition(".")[0]
    if top.startswith("_") or ".__" in name:
        return None
    if environment is not None and environment.installed is not None and top in environment.modules:
        return environment.installed / environment.site
    is_of_python = top in sys.stdlib_module_names and top not in _WITH_EFFECTS
    return Path(sysconfig.get_path("stdlib")) if is_of_python else None


def _is_module(name: str, root: Path) -> bool:
    """Whether a name with dots is that of a module: a file, compiled or not, or a folder."""
    *parents, last = name.split(".")
    folder = str(root.joinpath(*parents))
    place = os.path.join(folder, last)
    if os.path.isfile(f"{place}.py") or os.path.isdir(place):
        return True
    try:
        return any(file.startswith(f"{last}.") and file.endswith(_COMPILED) for file in os.listdir(folder))
    except OSError:
        return False
