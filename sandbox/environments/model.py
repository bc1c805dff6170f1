"""An environment as the rest of the engine sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandbox.protocols import BoxImage


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter and the folders it needs; `key` says exactly which."""

    key: str
    lock_digest: str
    python: Path
    version: str
    folders: tuple[Path, ...]
    """Host folders the interpreter reads: its prefix and its standard library."""
    hidden: tuple[Path, ...]
    """Folders below those that belong to the host's own packages and are not shown."""
    installed: Path | None = None
    """The folder of what was installed for it; the bare environment has none."""
    site: str = ""
    """Where in that folder the packages are, such as `lib/python3.11/site-packages`."""
    copy: tuple[int, ...] = ()
    """The identity of the folder's copy: an environment that was removed and built again is another copy."""
    modules: frozenset[str] = frozenset()
    """The names that can be imported from there."""
    image: BoxImage | None = None
    """The image of its containers, if it is for containers."""
