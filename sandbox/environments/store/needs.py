"""What the environments of a store, and the locks that were brought along, need of its package trees and wheels, and
what all of that takes up on disk."""

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


class Needs:
    """Which trees and wheels the environments and locks that stay refer to, and what all that takes up."""

    def __init__(self, store: Store, environments: Sequence[StoredEnvironment]) -> None:
        self._store = store
        self._own = {environment.key: environment.manifest.bytes_own for environment in environments}
        self.brought = brought_locks(store)
        self._users = Counter(name for environment in environments for name in _made_from(environment))
        self._users.update(wheel for brought in self.brought for wheel in brought.wheels)
        self._sizes = {folder.name: _tree_bytes(folder) for folder in _kept_in(store.packages)}
        self._sizes |= {folder.name: disk_usage(folder) for folder in _kept_in(store.wheels)}

    def forget(self, environment: StoredEnvironment) -> None:
        """It does not stay."""
        del self._own[environment.key]
        self._users -= Counter(_made_from(environment))

    def forget_lock(self, brought: BroughtLock) -> None:
        """It does not stay."""
        self._users -= Counter(brought.wheels)

    def bytes_needed(self) -> int:
        """What is left when everything unneeded is gone."""
        return sum(self._own.values()) + sum(self._sizes.get(name, 0) for name in self._users)

    def bytes_unneeded(self) -> int:
        """What trees and wheels take up that nobody needs."""
        return sum(size for name, size in self._sizes.items() if name not in self._users)

    def unneeded(self, folder: Path) -> list[Path]:
        """Of what is in there."""
        return [place for place in _kept_in(folder) if place.name not in self._users]

    def broken(self) -> list[Path]:
        """What has the name of an environment and is none."""
        return [self._store.environments / key for key in self._store.broken_keys()]


def _kept_in(folder: Path) -> list[Path]:
    """What has a name in there; with a dot begins what is on its way in."""
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
    """What a folder and everything below it takes up, in blocks."""
    try:
        return bytes_on_disk([folder.lstat(), *(entry.status for entry in walk(folder))])
    except OSError:
        return 0
