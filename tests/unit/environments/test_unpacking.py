"""Wheels are unpacked while others are still on their way."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments import bare_environment
from sandbox.environments.build_context import BuildContext
from sandbox.environments.build_jobs import Job, JobEnd
from sandbox.environments.builds.plan import Plan
from sandbox.environments.builds.unpacking import Meter, Unpacking
from sandbox.environments.builds.workspace import Keep, open_workspace
from sandbox.environments.disk.file_inventory import take_inventory, write_list
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.interpreters.skeleton import site_folder
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.progress import Progress
from sandbox.environments.resolution.request import Resolution
from sandbox.environments.store.store import Store
from sandbox.errors import BuildFailed
from sandbox.policy import load
from tests.end_to_end.calls import wait_until
from tests.indexes import LocalIndex, sha256_of

PATIENCE_S: Final = 60
DONE: Final = JobEnd(value={"failed": {}})
LATE: Final = JobEnd(problem="timeout", is_late=True)


class _Boxes:
    """A runner of build jobs whose boxes end on request, the first box before any wheel may come."""

    def __init__(self, *ends: JobEnd) -> None:
        self.ends = list(ends)
        self.saw: list[list[str]] = []
        self.folders: list[Path | None] = []
        self.is_over = threading.Event()

    def tell(self, event: Progress) -> None:
        """Hold a download until the first box has ended."""
        if event.stage == "download":
            assert self.is_over.wait(PATIENCE_S)

    async def run(self, job: Job) -> JobEnd:
        self.saw.append(sorted(each.name for each in job.readable["/wheels"].glob("*.whl")))
        self.folders.append(job.folder)
        self.is_over.set()
        return self.ends.pop(0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as running:
        running.add("wanted", "1.0")
        yield running


async def _nothing() -> None:
    """Keep no skeleton, because the store already has one."""


@asynccontextmanager
async def _unpacking(
    index: LocalIndex, boxes: _Boxes, folder: Path, *, keep_skeleton: Keep = _nothing
) -> AsyncIterator[Unpacking]:
    (wheel,) = index.wheels()
    package = LockedPackage(name="wanted", version="1.0", wheel=wheel.name, sha256=sha256_of(wheel))
    own = own_interpreter()
    means = BuildContext(
        interpreter=own,
        settings=index.settings(),
        policy=load("packages"),
        environment=bare_environment(),
        disk=1 << 20,
        builder_digest="",
        uv=folder,
    )
    lock = Lock(requirements=("wanted",), interpreter=own.tag, packages=(package,))
    resolution = Resolution(lock=lock, origins={package.sha256: f"{index.root}/files/{package.wheel}"})
    store = Store(folder / "store")
    _keep_skeleton(store.root / "skeletons" / own.digest[:32])
    async with open_workspace(means, store=store, jobs=boxes, keep_skeleton=keep_skeleton) as workspace:
        yield Unpacking(Plan("0" * 64, resolution, means), [package], workspace, store.wheels, boxes.tell)


def _keep_skeleton(kept: Path) -> None:
    """Write a skeleton with next to nothing in it."""
    (kept / "content" / site_folder(own_interpreter())).mkdir(parents=True, exist_ok=True)
    (kept / "content" / "pyvenv.cfg").touch()
    (kept / "files").write_text(write_list(take_inventory(kept / "content").files))


def _run(index: LocalIndex, boxes: _Boxes, folder: Path) -> list[str]:
    """Return the names of the unpacked wheels."""

    async def unpacked() -> list[str]:
        async with _unpacking(index, boxes, folder) as unpacking:
            return [place.name for place in (await unpacking.run()).wheels.values()]

    return asyncio.run(unpacked())


def test_a_box_is_opened_before_the_first_wheel_is_there(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(DONE)
    assert _run(index, boxes, tmp_path) == ["wanted-1.0-py3-none-any.whl"]
    assert boxes.saw == [[]]


def test_a_box_that_timed_out_before_the_wheels_is_replaced(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(LATE, DONE)
    _run(index, boxes, tmp_path)
    assert boxes.saw == [[], ["wanted-1.0-py3-none-any.whl"]]
    assert len(set(boxes.folders)) == 2


@pytest.mark.parametrize("ends", [[LATE, LATE], [JobEnd(problem="memory")]], ids=["late again", "something else"])
def test_a_box_that_failed_is_not_replaced(ends: list[JobEnd], index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(*ends)
    with pytest.raises(BuildFailed, match=ends[-1].problem):
        _run(index, boxes, tmp_path)
    assert boxes.ends == []


class _Waiting(_Boxes):
    """A runner of build jobs whose box never ends, and takes a few turns of the loop to be gone."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.are_gone = 0

    async def run(self, job: Job) -> JobEnd:
        never: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self.is_over.set()
        self.is_open.set()
        try:
            return await never
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            self.are_gone += 1


def test_a_missing_wheel_ends_the_box(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Waiting()
    index.corrupted.add("wanted-1.0-py3-none-any.whl")
    with pytest.raises(BuildFailed, match="is not the file that was locked"):
        _run(index, boxes, tmp_path)
    assert boxes.are_gone == 1


def test_a_cancelled_build_waits_until_its_box_is_gone(index: LocalIndex, tmp_path: Path) -> None:
    async def cancelled() -> int:
        boxes = _Waiting()
        async with _unpacking(index, boxes, tmp_path) as unpacking:
            task = asyncio.create_task(unpacking.run())
            await boxes.is_open.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return boxes.are_gone

    assert asyncio.run(cancelled()) == 1


class _Ahead(_Boxes):
    """A runner of build jobs whose first box waits for its order, as the program in it does."""

    async def run(self, job: Job) -> JobEnd:
        order = job.readable["/wheels"] / "order.json"
        self.is_over.set()
        assert await asyncio.to_thread(wait_until, order.exists)
        self.ordered = json.loads(order.read_text())
        return await super().run(job)


def _run_ahead(index: LocalIndex, boxes: _Boxes, folder: Path) -> list[str]:
    """Return the names of the unpacked wheels, in a workspace whose box was opened before."""

    async def unpacked() -> list[str]:
        async with _unpacking(index, boxes, folder) as unpacking:
            unpacking.workspace.begin()
            await asyncio.to_thread(boxes.is_over.wait, PATIENCE_S)
            return [place.name for place in (await unpacking.run()).wheels.values()]

    return asyncio.run(unpacked())


def test_a_waiting_box_gets_its_wheels_and_no_other_box_is_opened(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Ahead(DONE)
    assert _run_ahead(index, boxes, tmp_path) == ["wanted-1.0-py3-none-any.whl"]
    assert boxes.ordered == [["wanted", "wanted==1.0", "wanted-1.0-py3-none-any.whl"]]
    assert len(boxes.folders) == 1


def test_a_box_that_timed_out_while_waiting_is_replaced(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(LATE, DONE)
    assert _run_ahead(index, boxes, tmp_path) == ["wanted-1.0-py3-none-any.whl"]
    assert boxes.saw == [[], ["wanted-1.0-py3-none-any.whl"]]


def test_an_unused_workspace_leaves_neither_a_box_nor_a_folder(index: LocalIndex, tmp_path: Path) -> None:
    async def unused() -> tuple[int, list[Path]]:
        boxes = _Waiting()
        async with _unpacking(index, boxes, tmp_path) as unpacking:
            unpacking.workspace.begin()
            await boxes.is_open.wait()
        return boxes.are_gone, list((tmp_path / "store" / "building").iterdir())

    assert asyncio.run(unused()) == (1, [])


class _Second(_Boxes):
    """A runner of build jobs whose first box ends only when abandoned, and whose second works."""

    def __init__(self) -> None:
        super().__init__(DONE)
        self.first = _Waiting()

    async def run(self, job: Job) -> JobEnd:
        if self.is_over.is_set():
            return await super().run(job)
        return await self.first.run(job)


def test_a_workspace_with_an_abandoned_box_unpacks_in_another(index: LocalIndex, tmp_path: Path) -> None:
    async def unpacked() -> tuple[int, int]:
        boxes = _Second()
        async with _unpacking(index, boxes, tmp_path) as unpacking:
            unpacking.workspace.begin()
            await boxes.first.is_open.wait()
            boxes.is_over.set()
            for _ in range(2):
                unpacking.workspace.give_up()
                await asyncio.sleep(0)
            await unpacking.run()
            return boxes.first.are_gone, len(boxes.folders)

    assert asyncio.run(unpacked()) == (1, 1)


def test_a_workspace_that_failed_ahead_fails_its_user_only(index: LocalIndex, tmp_path: Path) -> None:
    async def used(*, is_used: bool) -> None:
        async with _unpacking(index, _Waiting(), tmp_path, keep_skeleton=_impossible) as unpacking:
            unpacking.workspace.begin()
            await asyncio.sleep(0)
            if is_used:
                await unpacking.run()

    asyncio.run(used(is_used=False))
    with pytest.raises(BuildFailed, match="no room on the workspace"):
        asyncio.run(used(is_used=True))


async def _impossible() -> None:
    raise BuildFailed("no room on the workspace")


def test_unpacking_is_reported_after_the_last_download_only() -> None:
    told: list[Progress] = []
    meter = Meter(2, told.append)
    meter("unpacked small")
    assert told == []
    meter.begin()
    meter("unpacked large")
    meter("compile 3")
    meter("compiled 3")
    assert [(each.stage, each.done, each.total) for each in told] == [
        ("unpack", 1, 2),
        ("unpack", 2, 2),
        ("compile", 0, 3),
        ("compile", 3, 3),
    ]
