"""Pruning: what is no longer wanted leaves the store, and what anyone still uses or builds does not.

An environment goes when its use lock can be had alone, without waiting: each user shares that lock. The environment
first loses its name, by a rename into a folder of ours, and is taken apart after that, so no reader finds half of one.

Package trees and wheels go when no environment that stays was made from them, and no lock that was brought along names
them, and only while no build runs: a builder counts on what it has just published though nothing refers to it yet.
During a build, they stay until next time.

The engine forgets resolutions that were not used for a long time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.environments.disk.build_folder import BUILDERS
from sandbox.environments.disk.complete_marker import UNFINISHED
from sandbox.environments.disk.file_inventory import bytes_on_disk
from sandbox.environments.disk.locks import locked_file
from sandbox.environments.disk.paths import remove
from sandbox.environments.store.failures import read_failure
from sandbox.environments.store.imported_locks import BroughtLock
from sandbox.environments.store.needs import StoreReferences, disk_usage, on_the_way_into

if TYPE_CHECKING:
    from sandbox.environments.store.store import Store, StoredEnvironment

_LOGS_KEPT_S: Final = 7 * 86400.0
_RESOLUTIONS_KEPT_S: Final = 90 * 86400.0
_ABANDONED_S: Final = 3600.0
"""The age at which a lock file or an unfinished file is surely unused."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The report of a prune: what was removed, or would be."""

    dry_run: bool
    environments: tuple[str, ...]
    in_use: tuple[str, ...]
    """Environments that should have gone, and that are in use."""
    imports: int
    """Locks that were brought along; their wheels go with them, unless an environment needs them."""
    trees: int
    wheels: int
    building: int
    leftovers: int
    """Outdated failures, logs, locks and resolutions, and files never finished, such as downloads broken off."""
    bytes_freed: int
    bytes_left: int
    is_somebody_building: bool
    """Whether trees and wheels had to stay for that reason."""


@dataclass(slots=True)
class Sweep:
    """A prune at work, and its results so far."""

    store: Store
    dry_run: bool
    now: float = field(default_factory=time.time)
    gone: list[str] = field(default_factory=list)
    in_use: list[str] = field(default_factory=list)
    freed: int = 0
    imports: int = 0
    building: int = 0
    leftovers: int = 0

    def environment(self, environment: StoredEnvironment, *, last_used: float) -> bool:
        """Remove it, unless it is in use, or was since it was chosen for that time."""
        lock = self.store.locks / f"{environment.key}.use"
        with self.store.aside() as aside, locked_file(lock) as is_unused:
            if not is_unused:
                self.in_use.append(environment.key)
                return False
            if environment.last_used != last_used:
                return False
            if not self.dry_run:
                self._move(environment.home, aside.folder)
                lock.unlink(missing_ok=True)
        self.gone.append(environment.key)
        self.freed += environment.manifest.bytes_own
        return True

    def brought_lock(self, brought: BroughtLock) -> None:
        """Forget what was brought along."""
        self.imports += 1
        if not self.dry_run:
            brought.file.unlink(missing_ok=True)

    def folders(self, folders: Iterable[Path], aside: Path) -> int:
        """Take the names from those; they are removed with the folder they are moved to."""
        unwanted = list(folders)
        for folder in unwanted:
            if not self.dry_run:
                self._move(folder, aside)
        return len(unwanted)

    def _move(self, folder: Path, aside: Path) -> None:
        with suppress(FileNotFoundError):
            folder.rename(aside / folder.name)

    def abandoned_work(self) -> None:
        """Remove what builders left whose lock is gone, which is to say who are."""
        for folder in list(self.store.building.iterdir()):
            lock = self.store.locks / folder.name
            with locked_file(lock) as is_abandoned:
                if not is_abandoned or not folder.exists():
                    continue
                self.building += 1
                self.freed += disk_usage(folder)
                if not self.dry_run:
                    remove(folder)
                    lock.unlink(missing_ok=True)

    def outdated(self) -> None:
        """Remove what is only of interest for a while."""
        self._files(self.store.failed, lambda path: read_failure(path) is None)
        self._files(self.store.logs, lambda path: self._age(path) > _LOGS_KEPT_S)
        self._files(self.store.resolutions, lambda path: self._age(path) > _RESOLUTIONS_KEPT_S)
        for folder in on_the_way_into(self.store.wheels):
            self._files(folder, lambda path: self._age(path) > _ABANDONED_S)
        for path in list(self.store.locks.iterdir()):
            if self._age(path) > _ABANDONED_S and path.name != BUILDERS:
                with locked_file(path) as is_unused:
                    self._remove_file(path, when=is_unused)

    def _files(self, folder: Path, is_outdated: Callable[[Path], bool]) -> None:
        for path in list(folder.iterdir()):
            if path.name.startswith(UNFINISHED):
                self._remove_file(path, when=self._age(path) > _ABANDONED_S)
            else:
                self._remove_file(path, when=is_outdated(path))

    def _remove_file(self, path: Path, *, when: bool) -> None:
        if when:
            self.leftovers += 1
            with suppress(FileNotFoundError):
                self.freed += bytes_on_disk([path.lstat()])
            if not self.dry_run:
                path.unlink(missing_ok=True)

    def _age(self, path: Path) -> float:
        try:
            return self.now - path.stat().st_mtime
        except FileNotFoundError:
            return 0.0


def prune(
    store: Store, keys: Collection[str], *, older_than_s: float | None, max_bytes: int | None, dry_run: bool
) -> PruneReport:
    """See `Store.prune`."""
    sweep = Sweep(store, dry_run)
    sweep.abandoned_work()
    needs = StoreReferences(store, environments := store.list())
    kept: list[StoredEnvironment | BroughtLock] = [*environments, *needs.brought]
    for last_used, each in sorted(((each.last_used, each) for each in kept), key=itemgetter(0)):
        is_old = older_than_s is not None and sweep.now - last_used > older_than_s
        is_too_much = max_bytes is not None and needs.bytes_needed() > max_bytes
        if isinstance(each, BroughtLock):
            if is_old or is_too_much:
                sweep.brought_lock(each)
                needs.forget_lock(each)
        elif (is_old or is_too_much or each.key in keys) and sweep.environment(each, last_used=last_used):
            needs.forget(each)
    trees, wheels, is_somebody_building = _drop_unneeded(sweep, needs)
    sweep.outdated()
    return PruneReport(
        dry_run=dry_run,
        environments=tuple(sweep.gone),
        in_use=tuple(sweep.in_use),
        imports=sweep.imports,
        trees=trees,
        wheels=wheels,
        building=sweep.building,
        leftovers=sweep.leftovers,
        bytes_freed=sweep.freed,
        bytes_left=needs.bytes_needed(),
        is_somebody_building=is_somebody_building,
    )


def _drop_unneeded(sweep: Sweep, needs: StoreReferences) -> tuple[int, int, bool]:
    """Remove unneeded trees and wheels, and incomplete ones, unless a build runs."""
    store = sweep.store
    with store.aside() as aside, locked_file(store.locks / BUILDERS) as nobody_builds:
        if not nobody_builds:
            return 0, 0, True
        needs = needs if sweep.dry_run else StoreReferences(store, store.list())  # others may have published meanwhile
        sweep.freed += needs.bytes_unneeded()
        sweep.folders(needs.broken(), aside.folder)
        trees = sweep.folders(needs.unneeded(store.packages), aside.folder)
        wheels = sweep.folders(needs.unneeded(store.wheels), aside.folder)
    return trees, wheels, False
