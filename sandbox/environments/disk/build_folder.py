"""A folder for work in progress, which a lock keeps from being swept up for exactly as long as its owner lives."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from sandbox.environments.disk.locks import lock_file
from sandbox.environments.disk.paths import make_folder, passable, remove, writing
from sandbox.errors import EnvironmentUnavailable

BUILDERS: Final = "builders"
"""The lock that all builds share, and that a prune must have alone to remove trees and wheels."""
# That takes a rename for each.
_PATIENCE_S: Final = 10.0


class BuildingFolder:
    """Used in a `with`, which removes it at its end, with whatever is still in it."""

    def __init__(self, folder: Path, *, locks: Path, is_for_building: bool = True) -> None:
        self.folder = folder
        self._lock = locks / folder.name
        self._builders = locks / BUILDERS if is_for_building else None
        self._held: list[int] = []

    def __enter__(self) -> BuildingFolder:
        try:
            with writing(f"the store {self.folder.parent.parent}"):
                if self._builders is not None:
                    self._hold(self._builders, shared=True)
                self._hold(self._lock)  # before there is a folder, so that no folder is ever without its owner's lock
                make_folder(self.folder, passable())
        except BaseException:
            self._let_go()
            raise
        return self

    def _hold(self, path: Path, *, shared: bool = False) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (descriptor := lock_file(path, shared=shared)) is None:
            if time.monotonic() > deadline:
                raise EnvironmentUnavailable("the store is being pruned", remedy="try again in a moment")
            time.sleep(0.001)
        self._held.append(descriptor)

    def __exit__(self, *_: object) -> None:
        try:
            remove(self.folder)
            self._lock.unlink(missing_ok=True)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()
