"""A call that is cut short has no outcome to return, but what came of it until then goes on with whatever did that."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, Outcome, Sandbox, Status
from sandbox.testing import FakeBackend, hangs, prints, script

TOOL: Final = "def tool():\n    pass\n"
Work = Callable[[AsyncSandbox], Coroutine[Any, Any, Any]]


def _hanging() -> FakeBackend:
    return FakeBackend({"tool": script(prints("here\n"), prints(stderr="oh\n"), hangs())})


async def _run(sandbox: AsyncSandbox) -> None:
    await sandbox.run(TOOL)


async def _stream(sandbox: AsyncSandbox) -> None:
    async for _ in sandbox.stream(TOOL):
        pass


async def _in_a_task(sandbox: AsyncSandbox) -> None:
    await asyncio.create_task(sandbox.run(TOOL))


def _is_told(outcome: Outcome) -> bool:
    told = (outcome.status, outcome.stdout.text, outcome.stderr.text, outcome.exit_code)
    assert told == (Status.CANCELLED, "here\n", "oh\n", 130)
    assert outcome.error is not None
    assert (outcome.error.type, outcome.value) == ("Cancelled", None)
    return True


@pytest.mark.parametrize("work", [_run, _stream, _in_a_task], ids=["run", "stream", "task"])
def test_whoever_cancels_a_call_can_ask_what_came_of_it(work: Work) -> None:
    async def cancelled() -> Outcome:
        async with AsyncSandbox(backend=_hanging()) as sandbox:
            task = asyncio.create_task(work(sandbox))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            outcome: Outcome = vars(caught.value)["outcome"]
            return outcome

    assert _is_told(asyncio.run(cancelled()))


def test_a_timeout_of_the_callers_own_stays_one() -> None:
    async def late() -> Outcome:
        async with AsyncSandbox(backend=_hanging()) as sandbox:
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.2):
                    await sandbox.run(TOOL)
            outcome: Outcome = vars(caught.value.__cause__)["outcome"]
            return outcome

    assert _is_told(asyncio.run(late()))


def test_a_call_that_never_began_has_nothing_to_tell() -> None:
    async def waiting() -> dict[str, object]:
        async with AsyncSandbox(backend=_hanging(), concurrency=1) as sandbox:
            first, second = (asyncio.create_task(sandbox.run(TOOL)) for _ in range(2))
            await asyncio.sleep(0.1)
            second.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await second
            first.cancel()
            await asyncio.wait([first])
            return vars(caught.value)

    assert asyncio.run(waiting()) == {}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_interrupt_brings_what_came_of_the_call(is_streamed: bool) -> None:
    with Sandbox(backend=_hanging()) as sandbox:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt) as caught:
            _ = list(sandbox.stream(TOOL)) if is_streamed else sandbox.run(TOOL)
        assert _is_told(vars(caught.value)["outcome"])


def test_an_interrupt_between_two_events_can_be_thrown_in() -> None:
    with Sandbox(backend=_hanging()) as sandbox:
        stream = sandbox.stream(TOOL)
        next(stream)
        interrupt = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            stream.throw(interrupt)
        assert vars(interrupt)["outcome"].status is Status.CANCELLED
