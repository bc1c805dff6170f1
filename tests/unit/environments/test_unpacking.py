"""Wheels are unpacked while others are still on their way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments import bare_environment
from sandbox.environments.builds.plan import Plan
from sandbox.environments.builds.unpacking import Meter, Unpacked, Unpacking
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.progress import Progress
from sandbox.environments.resolution.questions import Resolution
from sandbox.environments.workshop import Job, JobEnd
from sandbox.errors import BuildFailed
from sandbox.policy import load
from tests.indexes import LocalIndex, sha256_of

PATIENCE_S: Final = 60
DONE: Final = JobEnd(value={"failed": {}})
LATE: Final = JobEnd(problem="timeout", is_late=True)


class _Boxes:
    """A workshop whose boxes end as they are told, the first one before any wheel may come."""

    def __init__(self, *ends: JobEnd) -> None:
        self.ends = list(ends)
        self.saw: list[list[str]] = []
        self.is_over = threading.Event()

    def tell(self, event: Progress) -> None:
        """Holds a download until the first box has ended."""
        if event.stage == "download":
            assert self.is_over.wait(PATIENCE_S)

    async def run(self, job: Job) -> JobEnd:
        self.saw.append(sorted(each.name for each in job.readable["/wheels"].iterdir()))
        self.is_over.set()
        return self.ends.pop(0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as running:
        running.add("wanted", "1.0")
        yield running


def _unpacking(index: LocalIndex, boxes: _Boxes, folder: Path) -> Unpacking:
    (wheel,) = index.wheels()
    package = LockedPackage(name="wanted", version="1.0", wheel=wheel.name, sha256=sha256_of(wheel))
    own = own_interpreter()
    plan = Plan(
        key="0" * 64,
        resolution=Resolution(lock=Lock(requirements=("wanted",), interpreter=own.tag, packages=(package,))),
        interpreter=own,
        settings=index.settings(),
        policy=load("packages"),
        environment=bare_environment(),
        disk=1 << 20,
        builder_digest="",
        uv=folder,
    )
    return Unpacking(plan, [package], folder, folder, folder / "store", boxes, boxes.tell)


def _run(unpacking: Unpacking) -> Unpacked:
    return asyncio.run(unpacking.run())


def test_a_box_is_opened_before_the_first_wheel_is_there(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(DONE)
    unpacked = _run(_unpacking(index, boxes, tmp_path))
    assert boxes.saw == [[]]
    assert [place.name for place in unpacked.wheels.values()] == ["wanted-1.0-py3-none-any.whl"]


def test_a_box_whose_time_was_up_before_the_wheels_came_is_followed_by_one_that_has_them(
    index: LocalIndex, tmp_path: Path
) -> None:
    boxes = _Boxes(LATE, DONE)
    unpacked = _run(_unpacking(index, boxes, tmp_path))
    assert boxes.saw == [[], ["wanted-1.0-py3-none-any.whl"]]
    assert list(unpacked.folder.iterdir()) == []


@pytest.mark.parametrize("ends", [[LATE, LATE], [JobEnd(problem="memory")]], ids=["late again", "something else"])
def test_a_box_that_failed_is_not_followed_by_another(ends: list[JobEnd], index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Boxes(*ends)
    with pytest.raises(BuildFailed, match=ends[-1].problem):
        _run(_unpacking(index, boxes, tmp_path))
    assert boxes.ends == []


class _Waiting(_Boxes):
    """A workshop whose box never ends, and takes a few turns of the loop to be gone."""

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


def test_a_wheel_that_cannot_be_had_ends_the_box(index: LocalIndex, tmp_path: Path) -> None:
    boxes = _Waiting()
    index.corrupted.add("wanted-1.0-py3-none-any.whl")
    with pytest.raises(BuildFailed, match="is not the file that was locked"):
        _run(_unpacking(index, boxes, tmp_path))
    assert boxes.are_gone == 1


def test_who_is_cancelled_sees_the_box_gone(index: LocalIndex, tmp_path: Path) -> None:
    async def cancelled() -> int:
        boxes = _Waiting()
        task = asyncio.create_task(_unpacking(index, boxes, tmp_path).run())
        await boxes.is_open.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return boxes.are_gone

    assert asyncio.run(cancelled()) == 1


def test_what_is_unpacked_is_told_when_all_is_downloaded_and_not_before() -> None:
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
