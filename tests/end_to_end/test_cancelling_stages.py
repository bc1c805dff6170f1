"""Calls that do everything a call can, cancelled at each stage of it: nothing of them stays, and the next one works."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, Outcome, Progress, Status
from sandbox.environments.progress import Progress as BuildProgress
from sandbox.environments.store.store import Store
from sandbox.outputs.artifacts.store import ArtifactStore
from tests.end_to_end.calls import PATIENCE_S, TRIVIAL, is_at_rest, wait_until
from tests.end_to_end.packages import machine_with, publish_files, version_of
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
MOMENTS: Final = 20
CRUMBS: Final = 400
A_MOMENT_S: Final = 0.01
GIVEN: Final = {f"{number}.bin": os.urandom(MIB) for number in range(4)}
EVERYTHING: Final = """
import os

def tool(text: str):
    os.fork() or os.setsid() or __import__("time").sleep(600)
    yield "begun"
    for number in range(40):
        print("x" * 100_000)
        yield number
    with open("outputs/large", "wb") as file:
        file.write(os.urandom(4 << 20))
    yield text
"""
CALL: Final[dict[str, Any]] = {"args": {"text": "x" * (2 * MIB)}, "files": GIVEN}
STAGES: Final = ("resolve", "download", "unpack", "verify", "publish")


async def _serves(engine: AsyncSandbox) -> bool:
    outcome = await engine.run(TRIVIAL, {"a": 1, "b": 2})
    return (outcome.status, outcome.value) == (Status.OK, 3)


async def _ends(task: asyncio.Task[Outcome]) -> Status:
    """How it ended; a task that was cancelled is one way, and a call that was done before is the other."""
    task.cancel()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return (await task).status
    except asyncio.CancelledError:
        return Status.CANCELLED


def _unfinished(store: ArtifactStore) -> list[Path]:
    """List the files that are being written, or held for a call."""
    return [path for part in ("coming", "held") for path in store.root.glob(f"*/{part}/*")]


async def _try_moments(engine: AsyncSandbox, store: ArtifactStore) -> set[Status]:
    """Spread over as long as a whole call takes."""
    begun = asyncio.get_running_loop().time()
    whole = await engine.run(EVERYTHING, **CALL)
    assert (whole.status, [each.name for each in whole.artifacts][:1]) == (Status.OK, ["large"]), whole.error
    takes = asyncio.get_running_loop().time() - begun
    ends = set()
    for moment in range(MOMENTS):
        task = asyncio.create_task(engine.run(EVERYTHING, **CALL))
        await asyncio.wait([task], timeout=takes * moment / MOMENTS)
        ends.add(await _ends(task))
        assert _unfinished(store) == []
        assert await _serves(engine)
    return ends


def test_a_call_cancelled_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)

    async def work() -> None:
        async with AsyncSandbox(artifact_store=store) as engine:
            ends = await _try_moments(engine, store)
            assert Status.CANCELLED in ends
            assert ends <= {Status.CANCELLED, Status.OK}
            assert wait_until(is_at_rest)

    asyncio.run(work())


def test_a_stream_cancelled_between_its_items_leaves_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)

    async def read(engine: AsyncSandbox, most: int, reached: asyncio.Event) -> None:
        seen = 0
        async for event in engine.stream(EVERYTHING, **CALL):
            seen += isinstance(event, Progress)
            if seen == most:
                reached.set()
                await asyncio.Event().wait()

    async def work() -> None:
        async with AsyncSandbox(artifact_store=store) as engine:
            for most in (1, 2, 20, 41):
                reached = asyncio.Event()
                reading = asyncio.create_task(read(engine, most, reached))
                async with asyncio.timeout(PATIENCE_S):
                    await reached.wait()
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                assert await _serves(engine)
                assert await asyncio.to_thread(wait_until, lambda: is_at_rest() and not _unfinished(store))

    asyncio.run(work())


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIndex]:
    """An index of a package of some size."""
    folder = tmp_path_factory.mktemp("wheels")
    files = {"wanted/__init__.py": "VERSION = '1.0'\n", "wanted/noise.txt": os.urandom(MIB).hex()}
    publish_files(folder, "wanted", files)
    publish_files(folder, "crumbs", {f"crumbs/{number}/{number}.txt": "crumb" for number in range(CRUMBS)})
    with LocalIndex(folder) as index, machine_with(index.url):
        yield index


@pytest.mark.parametrize("stage", STAGES)
def test_a_call_cancelled_during_its_build_leaves_a_store_that_works(
    stage: str, index: LocalIndex, tmp_path: Path
) -> None:
    source = version_of("wanted", "wanted")

    async def work() -> None:
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(event: BuildProgress) -> None:
            if event.stage == stage:
                loop.call_soon_threadsafe(reached.set)

        async with AsyncSandbox(store=tmp_path, on_progress=tell) as engine:
            task = asyncio.create_task(engine.run(source))
            await asyncio.wait([task, asyncio.create_task(reached.wait())], return_when=asyncio.FIRST_COMPLETED)
            assert reached.is_set()
            assert await _ends(task) in (Status.CANCELLED, Status.OK)
            outcome = await engine.run(source)
            assert (outcome.status, outcome.value) == (Status.OK, "1.0"), outcome.error
            assert wait_until(is_at_rest)

    asyncio.run(work())


@pytest.mark.parametrize("stage", ["verify", "publish"])
def test_a_build_cancelled_while_it_publishes_is_whole_or_absent(stage: str, index: LocalIndex, tmp_path: Path) -> None:
    async def cancelled(store: Path, *, moment: int) -> None:
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(event: BuildProgress) -> None:
            if event.stage == stage:
                loop.call_soon_threadsafe(reached.set)

        async with AsyncSandbox(store=store, on_progress=tell) as engine:
            task = asyncio.create_task(engine.build(requirements=["crumbs"]))
            await reached.wait()
            await asyncio.wait([task], timeout=moment * A_MOMENT_S)
            task.cancel()
            await asyncio.wait([task])
            environment = await engine.build(requirements=["crumbs"])
            assert Store(store).verify(environment.key).is_intact

    for moment in range(4):
        asyncio.run(cancelled(tmp_path / str(moment), moment=moment))


def test_an_engine_closed_during_an_abandoned_build_stays_silent(index: LocalIndex, tmp_path: Path) -> None:
    complaints: list[Any] = []

    async def work() -> None:
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: complaints.append(told))

        def tell(event: BuildProgress) -> None:
            if event.stage == "unpack":
                loop.call_soon_threadsafe(reached.set)

        async with AsyncSandbox(store=tmp_path, on_progress=tell) as engine:
            task = asyncio.create_task(engine.run(version_of("wanted", "wanted")))
            await reached.wait()
            assert await _ends(task) is Status.CANCELLED
        gc.collect()

    asyncio.run(work())
    assert complaints == []
