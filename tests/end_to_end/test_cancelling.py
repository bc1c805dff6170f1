"""Calls that are cancelled, at every stage: the caller is free at once, and it is gone with all it had running."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, EngineClosed, Finished, Outcome, Sandbox, Status
from tests.end_to_end.calls import ENDLESS, PATIENCE_S, TRIVIAL, is_at_rest, is_at_work, under_way, wait_until

pytestmark = pytest.mark.slow

FAMILY: Final = """
import os, time
def tool() -> None:
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            time.sleep(3600)
    print("ready")
    while True: pass
"""


async def _serves(engine: AsyncSandbox) -> bool:
    outcome = await engine.run(TRIVIAL, {"a": 1, "b": 2})
    return (outcome.status, outcome.value) == (Status.OK, 3)


async def _printed(engine: AsyncSandbox, source: str, begun: asyncio.Event, **fields: Any) -> Outcome:
    """The outcome of a call; `begun` is set when it first prints."""
    async for event in engine.stream(source, **fields):
        begun.set()
        if isinstance(event, Finished):
            return event.outcome
    raise AssertionError("a stream ended without an outcome")


async def _ends_cancelled(task: asyncio.Task[Outcome]) -> bool:
    task.cancel()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await task
    except asyncio.CancelledError:
        return True
    return False


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)
    assert wait_until(is_at_rest)


def test_a_call_cancelled_in_the_queue_never_runs() -> None:
    async def work() -> None:
        async with AsyncSandbox(concurrency=1) as engine:
            begun = asyncio.Event()
            first = asyncio.create_task(_printed(engine, ENDLESS, begun))
            await begun.wait()
            queued = [asyncio.create_task(engine.run(TRIVIAL, {"a": 1, "b": 2})) for _ in range(5)]
            await asyncio.sleep(0)
            assert [await _ends_cancelled(task) for task in queued[:4]] == [True] * 4
            assert not first.done()
            assert await _ends_cancelled(first)
            assert (await queued[4]).ok
            assert await _serves(engine)

    _run(work())


@pytest.mark.parametrize("after_ms", [0, 1, 3, 10, 25, 50, 75, 100, 150])
def test_a_call_cancelled_while_its_box_opens_leaves_an_engine_that_serves(after_ms: int) -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            task = asyncio.create_task(engine.run(ENDLESS))
            await asyncio.wait([task], timeout=after_ms / 1000)
            assert await _ends_cancelled(task)
            assert await _serves(engine)

    _run(work())


def test_cancelling_one_caller_leaves_the_box_to_others_that_wait() -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            tasks = [asyncio.create_task(engine.run(TRIVIAL, {"a": 1, "b": 2})) for _ in range(6)]
            await asyncio.wait(tasks, timeout=0.01)
            assert await _ends_cancelled(tasks[0])
            assert [outcome.value for outcome in await asyncio.gather(*tasks[1:])] == [3] * 5

    _run(work())


@pytest.mark.parametrize("source", [ENDLESS, FAMILY])
def test_a_running_call_that_is_cancelled_is_killed_with_all_it_started(source: str) -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            begun = asyncio.Event()
            task = asyncio.create_task(_printed(engine, source, begun))
            await begun.wait()
            assert await _ends_cancelled(task)
            assert await _serves(engine)
            assert wait_until(is_at_rest)

    _run(work())


def test_a_call_that_is_cancelled_again_and_again_is_still_seen_to_its_end() -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            begun = asyncio.Event()
            task = asyncio.create_task(_printed(engine, FAMILY, begun))
            await begun.wait()
            for _ in range(20):
                task.cancel()
                await asyncio.sleep(0)
            assert await _ends_cancelled(task)
            assert await _serves(engine)

    _run(work())


def test_a_call_cancelled_while_it_ends_is_either_done_or_cancelled() -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            assert await _serves(engine)
            ends = []
            for step in range(60):
                task = asyncio.create_task(engine.run(TRIVIAL, {"a": 1, "b": 2}))
                await asyncio.wait([task], timeout=step / 5000)
                ends.append(await _ends_cancelled(task))
                assert ends[-1] or task.result().value == 3
            assert ends[0]
            assert await _serves(engine)

    _run(work())


def test_a_timeout_of_the_callers_own_cancels_the_call() -> None:
    async def work() -> None:
        async with AsyncSandbox() as engine:
            assert await _serves(engine)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await engine.run(FAMILY)
            assert await _serves(engine)

    _run(work())


def test_a_map_that_is_cancelled_ends_all_its_calls() -> None:
    async def work() -> None:
        async with AsyncSandbox(concurrency=4) as engine:
            assert await _serves(engine)
            task = asyncio.create_task(engine.map(ENDLESS, [{}] * 10))
            await asyncio.wait([task], timeout=0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await _serves(engine)

    _run(work())


def test_closing_an_engine_ends_its_calls_and_says_why() -> None:
    async def work() -> None:
        engine = AsyncSandbox(concurrency=2)
        begun = asyncio.Event()
        tasks = [asyncio.create_task(_printed(engine, FAMILY, begun)) for _ in range(5)]
        await begun.wait()
        async with asyncio.timeout(PATIENCE_S):
            await engine.close()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {EngineClosed}, ends
        with pytest.raises(EngineClosed):
            await engine.run(TRIVIAL, {"a": 1, "b": 2})

    _run(work())


def _interrupt_when(is_time: threading.Event) -> threading.Thread:
    """Press Ctrl-C in this process as soon as a call is at work."""

    def press() -> None:
        is_time.wait(PATIENCE_S)
        wait_until(is_at_work)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_in_a_blocking_call_leaves_the_engine_usable() -> None:
    with Sandbox() as engine:
        is_time = threading.Event()
        thread = _interrupt_when(is_time)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes at any time
            is_time.set()
            engine.run(FAMILY)
        thread.join()
        assert wait_until(is_at_rest)
        assert engine.run(TRIVIAL, {"a": 1, "b": 2}).value == 3


def test_ctrl_c_while_a_stream_is_read_kills_the_call() -> None:
    with Sandbox() as engine:
        is_time = threading.Event()
        thread = _interrupt_when(is_time)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes at any time
            for _ in engine.stream(FAMILY):
                is_time.set()
        thread.join()
        assert wait_until(is_at_rest)
        assert engine.run(TRIVIAL, {"a": 1, "b": 2}).value == 3


def test_closing_a_blocking_engine_from_another_thread_ends_its_calls() -> None:
    engine = Sandbox()
    with under_way(engine, FAMILY) as call:
        engine.close()
        with pytest.raises(EngineClosed):
            call.result(PATIENCE_S)
    assert wait_until(is_at_rest)
