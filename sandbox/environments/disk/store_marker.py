"""The sign of a store: without it nothing in a folder is ours to remove, whatever its folders are called.

A store is pruned by removing what is in `wheels/`, `packages/`, `building/` and others of such plain names, and people
name folders by mistake, or the one they are in. So the first thing that a new store gets is a file, `sandbox-store`;
a folder that has none must be empty to become a store. A store that was made before there were signs is known by
having all folders that every store then had, closed where they were closed, and is given one.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandbox.environments.disk.complete_marker import UNFINISHED
from sandbox.errors import EnvironmentUnavailable

SIGN: Final = "sandbox-store"
_TEXT: Final = b"This folder is a store of `sandbox`: what is in it is removed when nobody wants it any more.\n"
_OF_EARLIER_STORES: Final = frozenset({"building", "envs", "failed", "locks", "logs", "packages", "wheels"})
_CLOSED_IN_THEM: Final = ("failed", "locks", "logs")
_BESIDE: Final = ("artifacts-", "public-index", UNFINISHED)
"""How the names begin of what we keep in the same place and may have been there first."""
_SHOWN_NAMES: Final = 3


def give_sign(root: Path) -> None:
    """See that the folder has its sign; raises `EnvironmentUnavailable` where there is something else in it."""
    if os.path.lexists(root / SIGN):
        return
    names = set(os.listdir(root))
    if _is_earlier_store(root, names):
        with suppress(OSError):  # the store is known without the marker
            _write(root / SIGN)
        return
    if SIGN not in names:  # a process that makes it at the same time writes the sign first
        _refuse_others(root, names)
        _write(root / SIGN)


def _refuse_others(root: Path, names: set[str]) -> None:
    others = sorted(name for name in names if not name.startswith(_BESIDE))
    if others:
        shown = ", ".join(others[:_SHOWN_NAMES]) + (", …" if len(others) > _SHOWN_NAMES else "")
        raise EnvironmentUnavailable(
            f"the folder {root} is no store, and not empty: it holds {shown}",
            remedy="name a folder of its own for the store, in --store or SANDBOX_STORE; an empty one, or a new one",
        )


def _is_earlier_store(root: Path, names: set[str]) -> bool:
    return names >= _OF_EARLIER_STORES and all(_is_closed(root / name) for name in _CLOSED_IN_THEM)


def _is_closed(folder: Path) -> bool:
    mode = folder.lstat().st_mode
    return stat.S_ISDIR(mode) and not mode & 0o077


def _write(sign: Path) -> None:
    with suppress(FileExistsError):
        descriptor = os.open(sign, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_TEXT)
