"""On a full disk, a lost file is reported with its place and a remedy."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.outputs.artifacts.receiver import DATA, END, FILE
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.artifacts.writer import ArtifactWriter
from tests.unit.artifacts.test_receiver import OVER_NOW, arrived, file, record

pytestmark = [pytest.mark.root, pytest.mark.slow]
LARGE = os.urandom(2 << 20)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ArtifactStore]:
    """Yield a store on a file system of one MiB."""
    (place := tmp_path / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    try:
        yield ArtifactStore(place)
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_full_disk_loses_the_file_of_a_call(small: ArtifactStore) -> None:
    pieces = [record(DATA, LARGE[start : start + (1 << 16)]) for start in range(0, len(LARGE), 1 << 16)]
    large = record(FILE, {"name": "large", "bytes": len(LARGE)}) + b"".join(pieces)
    others = record(END, {"refused": None}) + file("small", b"x") + OVER_NOW
    found = arrived(small, large + others, most_bytes=2 * len(LARGE))
    assert [each.name for each in found.artifacts] == ["small"]
    (refused,) = found.refused
    assert (refused.name, refused.is_lost) == ("large", True)
    (same, ended) = arrived(small, large, most_bytes=2 * len(LARGE)).refused
    assert (same, ended.is_lost) == (refused, False)
    reason = refused.reason
    assert f"cannot be kept in {small.root}" in reason
    assert "No space left" in reason
    assert "SANDBOX_ARTIFACTS" in reason


def test_a_full_disk_loses_the_output_of_a_call(small: ArtifactStore) -> None:
    async def fault() -> str | None:
        with closing(ArtifactWriter(small.shelf())) as keeping:
            spill = StreamSpool(keeping)
            spill.feed(LARGE)
            assert await spill.keep("stdout.txt") is None
            return spill.fault

    said = asyncio.run(fault()) or ""
    assert f"cannot be kept in {small.root}" in said
    assert "SANDBOX_ARTIFACTS" in said
