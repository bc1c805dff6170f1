"""The package trees and wheels that the environments and imported locks of a store need, and the space that all of that
takes up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox.environments.disk.file_inventory import bytes_on_disk, walk
from sandbox.environments.store.imported_locks import BroughtLock, brought_locks
from sandbox.environments.store.tree_report import TREE_DOCUMENT, TreeFacts

if TYPE_CHECKING:
    from sandbox.environments.store.store import Store, StoredEnvironment


class StoreReferences:
    """The trees and wheels that the remaining environments and locks refer to, and their space."""

    def __init__(self, store: Store, environments: Sequence[StoredEnvironment]) -> None:
        self._store = store
        self._own = {environment.key: environment.manifest.bytes_own for environment in environments}
        self.brought = brought_locks(store)
        self._users = Counter(name for environment in environments for name in _made_from(environment))
        self._users.update(wheel for brought in self.brought for wheel in brought.wheels)
        self._sizes = {folder.name: _tree_bytes(folder) for folder in _kept_in(store.packages)}
        self._sizes |= {folder.name: disk_usage(folder) for folder in _kept_in(store.wheels)}

    def forget(self, environment: StoredEnvironment) -> None:
        """Remove its references."""
        del self._own[environment.key]
        self._users -= Counter(_made_from(environment))

    def forget_lock(self, brought: BroughtLock) -> None:
        """Remove its references."""
        self._users -= Counter(brought.wheels)

    def bytes_needed(self) -> int:
        """Return the bytes that remain when everything unneeded is gone."""
        return sum(self._own.values()) + sum(self._sizes.get(name, 0) for name in self._users)

    def bytes_unneeded(self) -> int:
        """Return the bytes of unneeded trees and wheels."""
        return sum(size for name, size in self._sizes.items() if name not in self._users)

    def unneeded(self, folder: Path) -> list[Path]:
        """Return the unneeded entries of that folder."""
        return [place for place in _kept_in(folder) if place.name not in self._users]

    def broken(self) -> list[Path]:
        """Return the folders that have an environment's name and are incomplete."""
        return [self._store.environments / key for key in self._store.broken_keys()]


def _kept_in(folder: Path) -> list[Path]:
    """Return the entries of that folder; names of unfinished ones begin with a dot."""
    return [place for place in folder.iterdir() if not place.name.startswith(".")]


def on_the_way_into(folder: Path) -> list[Path]:
    """The folders of what has no name in there yet."""
    return [place for place in folder.iterdir() if place.name.startswith(".") and place.is_dir()]


def _made_from(environment: StoredEnvironment) -> set[str]:
    wheels = {package.sha256 for package in environment.manifest.lock.packages}
    return wheels | set(environment.manifest.trees)


def _tree_bytes(folder: Path) -> int:
    try:
        return TreeFacts.model_validate_json((folder / TREE_DOCUMENT).read_bytes()).bytes_on_disk
    except (OSError, ValidationError):
        return disk_usage(folder)


def disk_usage(folder: Path) -> int:
    """Return the allocated bytes of a folder and all below it."""
    try:
        return bytes_on_disk([folder.lstat(), *(entry.status for entry in walk(folder))])
    except OSError:
        return 0
