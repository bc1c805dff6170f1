"""A call that is cut short returns no outcome; the exception carries its outcome until then."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, CallCancelled, Outcome, Sandbox, Status
from sandbox.testing import FakeBackend, hangs, prints, script

TOOL: Final = "def tool():\n    pass\n"
Work = Callable[[AsyncSandbox], Coroutine[Any, Any, Any]]


class _Hanging(FakeBackend):
    """A backend with a tool that prints and never ends."""

    def __init__(self) -> None:
        super().__init__({"tool": self._begin})
        self.has_begun = threading.Event()

    def _begin(self) -> object:
        self.has_begun.set()
        return script(prints("here\n"), prints(stderr="oh\n"), hangs())

    async def has_printed(self) -> None:
        """Wait until the call has begun and printed its first line."""
        await asyncio.to_thread(self.has_begun.wait)
        await asyncio.sleep(0.05)


async def _run(sandbox: AsyncSandbox) -> None:
    await sandbox.run(TOOL)


async def _stream(sandbox: AsyncSandbox) -> None:
    async for _ in sandbox.stream(TOOL):
        pass


async def _in_a_task(sandbox: AsyncSandbox) -> None:
    await asyncio.create_task(sandbox.run(TOOL))


def outcome_in(error: BaseException) -> Outcome:
    found = CallCancelled.of(error)
    assert found is not None
    return found.outcome


def _has_outcome(outcome: Outcome) -> bool:
    told = (outcome.status, outcome.stdout.text, outcome.stderr.text, outcome.exit_code)
    assert told == (Status.CANCELLED, "here\n", "oh\n", 130)
    assert outcome.error is not None
    assert (outcome.error.type, outcome.value) == ("Cancelled", None)
    return True


@pytest.mark.parametrize("work", [_run, _stream, _in_a_task], ids=["run", "stream", "task"])
def test_a_caller_that_cancels_can_read_the_outcome(work: Work) -> None:
    async def cancelled() -> Outcome:
        backend = _Hanging()
        async with AsyncSandbox(backend=backend) as sandbox:
            task = asyncio.create_task(work(sandbox))
            await backend.has_printed()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            return outcome_in(caught.value)

    assert _has_outcome(asyncio.run(cancelled()))


async def _run_in_time(sandbox: AsyncSandbox, backend: _Hanging) -> None:
    """Run a call whose caller's time is up as soon as it has printed."""

    async def expire() -> None:
        await backend.has_printed()
        deadline.reschedule(asyncio.get_running_loop().time())

    async with asyncio.timeout(None) as deadline:
        expiring = asyncio.create_task(expire())
        await sandbox.run(TOOL)
        await expiring


def test_a_timeout_of_the_caller_stays_a_timeout() -> None:
    async def late() -> Outcome:
        backend = _Hanging()
        async with AsyncSandbox(backend=backend) as sandbox:
            with pytest.raises(TimeoutError) as caught:
                await _run_in_time(sandbox, backend)
            return outcome_in(caught.value)

    assert _has_outcome(asyncio.run(late()))


def test_a_call_that_never_began_has_no_outcome() -> None:
    async def waiting() -> CallCancelled | None:
        backend = _Hanging()
        async with AsyncSandbox(backend=backend, concurrency=1) as sandbox:
            first, second = (asyncio.create_task(sandbox.run(TOOL)) for _ in range(2))
            await backend.has_printed()
            second.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await second
            first.cancel()
            await asyncio.wait([first])
            return CallCancelled.of(caught.value)

    assert asyncio.run(waiting()) is None


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_interrupt_carries_the_outcome(is_streamed: bool) -> None:
    backend = _Hanging()

    def interrupt() -> None:
        backend.has_begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    with Sandbox(backend=backend) as sandbox:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt) as caught:
            _ = list(sandbox.stream(TOOL)) if is_streamed else sandbox.run(TOOL)
        assert _has_outcome(outcome_in(caught.value))


def test_an_interrupt_between_two_events_can_be_thrown_in() -> None:
    with Sandbox(backend=_Hanging()) as sandbox:
        stream = sandbox.stream(TOOL)
        next(stream)
        interrupt = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            stream.throw(interrupt)
        assert outcome_in(interrupt).status is Status.CANCELLED
