"""An engine used from another process or another event loop, or closed by two callers at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

import pytest

from sandbox import AsyncSandbox, EngineClosed, Sandbox
from sandbox.testing import FakeBackend, hangs, prints, script

TOOL: Final = "def tool():\n    pass\n"
PATIENCE_S: Final = 60
IN_A_FORK: Final = """
import os, signal
from sandbox import EngineClosed, Sandbox
from sandbox.testing import FakeBackend

TOOL = "def tool(): pass\\n"
with Sandbox(backend=FakeBackend({"tool": 1})) as sandbox:
    assert sandbox.run(TOOL).value == 1
    if os.fork() == 0:
        signal.alarm(20)
        try:
            sandbox.run(TOOL)
        except EngineClosed as error:
            print(error.message, "/", error.remedy, flush=True)
        sandbox.close()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.wait()[1]), sandbox.run(TOOL).value, flush=True)
"""


def _hanging() -> FakeBackend:
    return FakeBackend({"tool": script(prints("here\n"), hangs())})


@pytest.mark.slow
def test_a_forked_process_gets_an_error_and_does_not_hang() -> None:
    command = [sys.executable, "-c", IN_A_FORK]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout.splitlines()
    assert told == [
        "the engine belongs to another process, from which this one was forked / "
        "open an engine in each process, after the fork",
        "7 1",
    ]


def test_another_event_loop_gets_an_error_and_may_close_an_orphan() -> None:
    sandbox = AsyncSandbox(backend=FakeBackend({"tool": 1}))
    assert asyncio.run(sandbox.run(TOOL)).value == 1
    with pytest.raises(EngineClosed, match="another event loop") as refused:
        asyncio.run(sandbox.run(TOOL))
    assert refused.value.remedy is not None
    assert "Sandbox" in refused.value.remedy
    asyncio.run(sandbox.close())
    with pytest.raises(EngineClosed, match="is closed"):
        asyncio.run(sandbox.run(TOOL))


def test_closing_an_engine_needs_its_own_event_loop() -> None:
    async def serve() -> None:
        async with AsyncSandbox(backend=FakeBackend({"tool": 1})) as sandbox:
            assert (await sandbox.run(TOOL)).value == 1
            with pytest.raises(EngineClosed, match="another event loop"):
                await asyncio.to_thread(lambda: asyncio.run(sandbox.close()))
            assert (await sandbox.run(TOOL)).value == 1

    asyncio.run(serve())


@pytest.mark.parametrize("is_first_cancelled", [False, True])
def test_a_call_cut_off_by_two_closings_names_the_reason(is_first_cancelled: bool) -> None:
    async def close_twice() -> BaseException | None:
        sandbox, begun = AsyncSandbox(backend=_hanging()), asyncio.Event()
        call = asyncio.create_task(_first_word(sandbox, begun))
        await begun.wait()
        first = asyncio.create_task(sandbox.close())
        await asyncio.sleep(0)
        if is_first_cancelled:
            first.cancel()
        await sandbox.close()
        await asyncio.gather(first, return_exceptions=True)
        (end,) = await asyncio.gather(call, return_exceptions=True)
        return end

    assert isinstance(asyncio.run(close_twice()), EngineClosed)


async def _first_word(sandbox: AsyncSandbox, begun: asyncio.Event) -> None:
    async for _ in sandbox.stream(TOOL):
        begun.set()


def test_an_open_stream_of_a_closed_sandbox_prints_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    with Sandbox(backend=_hanging()) as sandbox:
        stream = sandbox.stream(TOOL)
        next(stream)
    stream.close()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_program_that_leaves_a_stream_open_prints_no_warning() -> None:
    program = """
from sandbox import Sandbox
with Sandbox() as sandbox:
    stream = sandbox.stream("import time\\ndef tool():\\n    print('here', flush=True)\\n    time.sleep(60)\\n")
    print(next(stream).stream, end="", flush=True)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stdout", "")
