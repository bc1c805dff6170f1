"""A cancelled task waits for its thread, so that no file stays open or is removed half written."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from sandbox.environments.tasks import gone, to_its_end


async def _cancelled(task: asyncio.Task[object]) -> None:
    """Cancel twice, each time with a moment for the task to end."""
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
        assert not task.done()


def test_the_thread_of_a_cancelled_task_ends_first() -> None:
    begun, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(30)
        has_ended.set()

    async def scene() -> None:
        task: asyncio.Task[object] = asyncio.create_task(to_its_end(work))
        await asyncio.to_thread(begun.wait)
        await _cancelled(task)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert has_ended.is_set()

    asyncio.run(scene())


def test_the_result_of_a_thread_is_returned_or_raised() -> None:
    assert asyncio.run(to_its_end(partial(int, "7"))) == 7
    with pytest.raises(ValueError, match="seven"):
        asyncio.run(to_its_end(partial(int, "seven")))


def test_a_second_cancellation_does_not_interrupt_the_wait_for_a_task() -> None:
    async def scene() -> None:
        is_ending, may_end, ended = asyncio.Event(), asyncio.Event(), list[str]()

        async def slow_to_end() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                is_ending.set()
                await may_end.wait()
                ended.append("in its own time")

        ending = asyncio.create_task(slow_to_end())
        await asyncio.sleep(0)
        ending.cancel()
        task: asyncio.Task[object] = asyncio.create_task(gone(ending))
        await is_ending.wait()
        await _cancelled(task)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["in its own time"]

    asyncio.run(scene())


def test_the_result_of_a_task_that_ended_before_is_dropped() -> None:
    async def scene() -> None:
        for work in (asyncio.to_thread(int, "seven"), asyncio.to_thread(int, "7")):
            task = asyncio.create_task(work)
            await asyncio.wait({task})
            await gone(task)

    asyncio.run(scene())
