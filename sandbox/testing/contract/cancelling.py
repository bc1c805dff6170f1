"""Calls that are given up by their caller, or by the engine's end."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from typing import Any, Final

from sandbox.client.client import AsyncSandbox
from sandbox.errors import EngineClosed
from sandbox.testing.contract import expect
from sandbox.testing.contract.endings import DAEMON
from sandbox.testing.contract.output import HANG
from sandbox.testing.contract.subject import Subject, processes_with, until, until_gone, until_printed

ECHO: Final = "def echo(value):\n    return value\n"


class Running:
    """A call that hangs, in a task of its own, known to have started."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._has_begun = asyncio.Event()
        self.task = asyncio.create_task(self._run(sandbox))

    async def begun(self) -> None:
        """Wait until the tool runs."""
        waiting = asyncio.create_task(self._has_begun.wait())
        await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        expect.that(not self.task.done(), f"the call that was to hang is over: {self.task!r:.2000}")

    async def _run(self, sandbox: AsyncSandbox) -> None:
        async with aclosing(sandbox.stream(HANG, {"text": "running"})) as events:
            await until_printed(events, "running\n")
            self._has_begun.set()
            async for _ in events:
                continue


async def _end_of(task: asyncio.Task[Any]) -> type[BaseException] | None:
    """Return the exception of the task, if any."""
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return None if error is None else type(error)


async def check_a_running_call_can_be_cancelled(subject: Subject) -> None:
    async with subject.engine(concurrency=1) as engine:
        running = Running(engine.sandbox)
        await running.begun()
        running.task.cancel()
        expect.same(await _end_of(running.task), asyncio.CancelledError)
        expect.ok(await engine.sandbox.run(ECHO, {"value": 1}))


async def check_a_waiting_call_can_be_cancelled(subject: Subject) -> None:
    async with subject.engine(concurrency=1) as engine:
        running = Running(engine.sandbox)
        await running.begun()
        waiting = asyncio.create_task(engine.sandbox.run(ECHO, {"value": 1}))
        behind = asyncio.create_task(engine.sandbox.run(ECHO, {"value": 2}))
        await asyncio.sleep(0)
        waiting.cancel()
        expect.same(await _end_of(waiting), asyncio.CancelledError)
        running.task.cancel()
        expect.same(await _end_of(running.task), asyncio.CancelledError)
        expect.same(expect.ok(await behind).value, 2)


async def check_a_call_can_be_cancelled_at_any_moment(subject: Subject) -> None:
    async with subject.engine(concurrency=2) as engine:
        for steps in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
            call = asyncio.create_task(engine.sandbox.run(ECHO, {"value": steps}))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            expect.that(await _end_of(call) in (asyncio.CancelledError, None), f"it raised {call!r:.2000}")
        expect.ok(await engine.sandbox.run(ECHO, {"value": 1}))


async def check_cancelling_ends_what_the_call_started(subject: Subject) -> None:
    marker = uuid.uuid4().hex
    call = asyncio.create_task(subject.sandbox.run(DAEMON, {"marker": marker, "hangs": True}))
    await until(lambda: processes_with(marker), message="the daemon is not among this host's processes")
    call.cancel()
    expect.same(await _end_of(call), asyncio.CancelledError)
    await until_gone(marker)


async def check_closing_the_engine_ends_its_calls_and_tells_them(subject: Subject) -> None:
    async with subject.engine(concurrency=2) as engine:
        running = [Running(engine.sandbox), Running(engine.sandbox)]
        for each in running:
            await each.begun()
        waiting = asyncio.create_task(engine.sandbox.run(ECHO, {"value": 1}))
        await asyncio.sleep(0)
        await engine.sandbox.close()
        ends = [await _end_of(task) for task in (*(each.task for each in running), waiting)]
        expect.same(ends, [EngineClosed] * 3)
        late = asyncio.create_task(engine.sandbox.run(ECHO, {"value": 1}))
        expect.same(await _end_of(late), EngineClosed)


async def check_closing_the_engine_while_a_box_opens_leaves_none(subject: Subject) -> None:
    async with subject.engine() as engine:
        call = asyncio.create_task(engine.sandbox.run(ECHO, {"value": 1}))
        for _ in range(4):
            await asyncio.sleep(0)
        await engine.sandbox.close()
        expect.same(await _end_of(call), EngineClosed)
