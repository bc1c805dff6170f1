"""Stores to measure with: a temporary folder with as many environments as wanted, removed at the end.

No benchmark removes files while it measures. ext4 skips all inodes that were freed in the last minutes, which makes
each new folder ten times as slow, in a store as elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox import AsyncSandbox
from sandbox.environments.disk.file_inventory import list_digest, take_inventory
from sandbox.environments.disk.paths import remove
from sandbox.environments.model import Environment
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import CONTENT, Store


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder next to other temporary files, and remove it with all its content at the end."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-benchmark-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        remove(folder)


async def build(store: Path, requirements: Iterable[str]) -> Environment:
    """Build an environment in the store, with a new engine."""
    async with AsyncSandbox(store=store) as sandbox:
        return await sandbox.build(requirements=[*requirements])


def set_aside(store: Path, *, and_trees: bool = False) -> None:
    """Remove all environments from the store, so that engines build them again. Wheels and locks stay; package trees
    stay unless `and_trees` is set."""
    aside = Path(tempfile.mkdtemp(prefix=f"{store.name}-aside-", dir=store.parent))
    for part in [Store(store).environments, *([Store(store).packages] if and_trees else [])]:
        for place in part.iterdir():
            place.rename(aside / place.name)


def fill(store: Path, count: int) -> None:
    """Publish small environments until the store has `count`, each as complete as any other."""
    stock = Store(store)
    pattern = stock.list()[0].manifest
    for number in range(count - len(stock.list())):
        _publish_small(stock, pattern, number)
    found = len(Store(store).list())
    if found != count:
        raise RuntimeError(f"the store lists {found} environments instead of {count}")


def _publish_small(store: Store, pattern: Manifest, number: int) -> None:
    with store.new_building_folder() as building:
        content = building.folder / CONTENT
        content.mkdir()
        (content / "pyvenv.cfg").write_text(f"number = {number}\n")
        files = take_inventory(content).files
        key = hashlib.sha256(f"small environment {number}".encode()).hexdigest()
        store.publish(building, pattern.model_copy(update={"key": key, "files": list_digest(files)}), files=files)


def disk(*folders: Path) -> float:
    """Return the MiB of these paths together; a file with several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for status in (os.lstat(os.path.join(parent, name)) for name in (".", *names)):
                seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values()) / (1 << 20)
