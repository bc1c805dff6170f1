"""A stream on its way into the store: short streams are never written, long ones never grow in memory."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.errors import ArtifactsUnavailable
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.store import ArtifactStore, Retention
from sandbox.outputs.artifacts.writer import ArtifactWriter


def test_a_kept_stream_is_complete(tmp_path: Path) -> None:
    async def spilled(sizes: list[int]) -> None:
        with closing(ArtifactWriter(store.shelf())) as keeping:
            spill, fed = StreamSpool(keeping), b""
            for number, size in enumerate(sizes):
                piece = bytes([number % 251]) * size
                spill.feed(piece)
                fed += piece
                await asyncio.sleep(0)
            artifact = await spill.keep("stdout.txt")
        assert artifact is not None
        with store.shelf().open(artifact.id) as file:
            assert file.read() == fed

    store = ArtifactStore(tmp_path)
    for sizes in ([10], [300_000] * 20, [1, 1 << 20, 3]):
        asyncio.run(spilled(sizes))


def test_a_short_dropped_stream_is_never_written(tmp_path: Path) -> None:
    async def dropped() -> None:
        with closing(ArtifactWriter(ArtifactStore(tmp_path / "store").shelf())) as keeping:
            spill = StreamSpool(keeping)
            spill.feed(b"x" * 1000)
            await spill.drop()

    asyncio.run(dropped())
    assert not (tmp_path / "store").exists()


def test_bytes_after_the_end_of_the_call_are_never_written(tmp_path: Path) -> None:
    async def fed() -> None:
        with closing(ArtifactWriter(ArtifactStore(tmp_path / "store").shelf())) as keeping:
            spill = StreamSpool(keeping)
        spill.feed(bytes(1 << 20))
        assert await spill.keep("stdout.txt") is None

    asyncio.run(fed())
    assert not (tmp_path / "store").exists()


def test_a_file_kept_for_a_cancelled_call_is_held_by_no_call(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    with closing(ArtifactWriter(store.shelf())) as keeping:
        coming = keeping.begin()
        coming.write(b"x")
    with pytest.raises(ArtifactsUnavailable):
        coming.keep("late")
    assert [path for path in store.root.rglob("*") if path.parent.name in ("coming", "held", "content")] == []


def test_a_writer_faster_than_the_disk_is_slowed_down(tmp_path: Path) -> None:
    async def fed() -> None:
        with closing(ArtifactWriter(ArtifactStore(tmp_path).shelf())) as keeping:
            spill, written = StreamSpool(keeping), asyncio.Event()
            spill.feed(bytes(4 << 20))
            behind = [spill.is_behind]
            spill.when_written(written.set)
            await asyncio.wait_for(written.wait(), 20)
            assert [*behind, spill.is_behind] == [True, False]
            await spill.drop()

    asyncio.run(fed())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_failure_to_keep_names_its_reason(tmp_path: Path) -> None:
    async def fault(store: ArtifactStore) -> str | None:
        with closing(ArtifactWriter(store.shelf())) as keeping:
            spill = StreamSpool(keeping)
            spill.feed(bytes(1 << 20))
            assert await spill.keep("stdout.txt") is None
            return spill.fault

    (tmp_path / "file").write_bytes(b"")
    assert "cannot be kept" in str(asyncio.run(fault(ArtifactStore(tmp_path / "file"))))
    full = ArtifactStore(tmp_path / "store", retention=Retention(tenant_bytes=1000))
    assert "quota" in str(asyncio.run(fault(full)))
