"""Locks that were brought along with their wheels, by a bundle: they answer who asks without a network.

    imported/<digest>.json      a lock, by the requirements and the interpreter that it is the answer for; its time is
                                that of the last use

Imported locks stay in the store like environments do, and their wheels with them, though nothing may have been built
from them yet: where there is no network, what was brought along cannot be had again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox.environments.disk.complete_marker import write_whole
from sandbox.environments.disk.paths import CLOSED, make_folder, writing
from sandbox.environments.lock import Lock

if TYPE_CHECKING:
    from sandbox.environments.store.store import Store


@dataclass(frozen=True, slots=True)
class BroughtLock:
    """An imported lock."""

    file: Path
    lock: Lock
    last_used: float
    """When, in seconds since the epoch."""

    @property
    def wheels(self) -> frozenset[str]:
        """The SHA-256 of each of its wheels."""
        return frozenset(package.sha256 for package in self.lock.packages)


def keep_lock(store: Store, lock: Lock) -> None:
    """Keep a lock from elsewhere as the answer to equal requests for such an interpreter."""
    place = _place(store, lock.requirements, lock.interpreter)
    with writing("the lock that was brought along"):
        make_folder(place.parent, CLOSED)
        write_whole(place, lock.model_dump_json().encode())


def brought_lock(store: Store, requirements: Sequence[str], interpreter: str) -> Lock | None:
    """The lock that was brought along for these; used now."""
    place = _place(store, requirements, interpreter)
    found = _read(place)
    with suppress(OSError):
        os.utime(place)
    return None if found is None else found.lock


def brought_locks(store: Store) -> Sequence[BroughtLock]:
    """All of them."""
    with suppress(FileNotFoundError):
        return [found for file in _folder(store).glob("*.json") if (found := _read(file))]
    return []


def _read(file: Path) -> BroughtLock | None:
    try:
        return BroughtLock(file, Lock.model_validate_json(file.read_bytes()), file.stat().st_mtime)
    except (OSError, ValidationError):
        return None


def _folder(store: Store) -> Path:
    return store.root / "imported"


def _place(store: Store, requirements: Sequence[str], interpreter: str) -> Path:
    asked = json.dumps([list(requirements), interpreter])
    return _folder(store) / f"{hashlib.sha256(asked.encode()).hexdigest()}.json"
