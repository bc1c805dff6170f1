"""The ends of calls have distinct statuses, and every process of a call ends with it."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from typing import Final

from sandbox.client.stream import Finished
from sandbox.outcome import Outcome, Status
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import UNTIL_BEGUN_S, Subject, processes_with, until_gone

FAIL: Final = """
def fail(message: str) -> None:
    raise ValueError(message)
"""
LEAVE: Final = """
import sys

def leave(code) -> None:
    print("before")
    sys.exit(code)
"""
QUIT: Final = "import os\n\ndef quit_at_once(code: int) -> str:\n    os._exit(code)\n"
SIGNAL: Final = """
import os

def signal_itself(number: int) -> str:
    os.kill(os.getpid(), number)
    return "survived"
"""
DAEMON: Final = '''
import os
import sys
import time

CODE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(int(sys.argv[2]), b"up")
time.sleep(600)
"""

def leave_a_daemon(marker: str, hangs: bool) -> str:
    """Have a grandchild of no parent and of a session of its own, and perhaps never return."""
    up, told = os.pipe()
    os.set_inheritable(told, True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", "-c", CODE, marker, str(told)])
        os._exit(0)
    os.wait()
    os.read(up, 2)
    print("left", flush=True)
    while hangs:
        time.sleep(1)
    return "left"
'''


async def check_an_exception_has_the_lines_of_the_author(subject: Subject) -> None:
    outcome = expect.ended(await subject.sandbox.run(FAIL, {"message": "no good"}), Status.EXCEPTION)
    error = outcome.error
    if error is None:
        raise AssertionError("there is no error")
    expect.same((error.type, error.message), ("ValueError", "no good"))
    expect.that("raise ValueError(message)" in (error.traceback or ""), f"the traceback is {error.traceback}")
    expect.same((error.traceback or "").count("File "), 1, what="the number of frames, all the author's,")


async def check_sys_exit_is_never_ok_whatever_its_code(subject: Subject) -> None:
    for given, code in ((0, 0), (None, 0), (3, 3), ("bye", 1)):
        outcome = expect.ended(await subject.sandbox.run(LEAVE, {"code": given}), Status.EXITED)
        expect.same(outcome.evidence["exit_code"], code)
        expect.same(outcome.stdout.text, "before\n")
        expect.same(outcome.stderr.text, "bye\n" if given == "bye" else "")


async def check_an_exit_without_a_word_is_never_ok(subject: Subject) -> None:
    for code in (0, 7):
        outcome = expect.ended(await subject.sandbox.run(QUIT, {"code": code}), Status.EXITED)
        expect.same((outcome.evidence["exit_code"], outcome.value), (code, None))


async def check_a_signal_is_a_crash_that_names_it(subject: Subject) -> None:
    for number, name in ((9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")):
        outcome = expect.ended(await subject.sandbox.run(SIGNAL, {"number": number}), Status.CRASHED)
        expect.same(outcome.evidence["signal"], name)


async def check_endless_recursion_is_an_exception(subject: Subject) -> None:
    outcome = await subject.sandbox.run("def recurse(n: int = 0):\n    return recurse(n + 1)\n")
    error = expect.ended(outcome, Status.EXCEPTION).error
    expect.same(error.type if error else None, "RecursionError")


async def check_who_ignores_sigterm_is_out_of_time_all_the_same(subject: Subject) -> None:
    source = (
        "import signal\n\ndef ignore_everything() -> None:\n"
        "    for number in (1, 2, 3, 10, 12, 15):\n        signal.signal(number, signal.SIG_IGN)\n"
        "    while True:\n        pass\n"
    )
    outcome = await subject.sandbox.run(source, limits={"wall": 0.5})
    expect.ended(outcome, Status.TIMEOUT, limit_name="wall")


async def check_threads_and_exit_handlers_that_hang_hold_nothing_up(subject: Subject) -> None:
    source = (
        "import atexit, threading, time\n\ndef hold_on() -> str:\n    atexit.register(time.sleep, 600)\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n    return 'done'\n"
    )
    expect.same(expect.ok(await subject.sandbox.run(source)).value, "done")


async def check_a_timeout_ends_children_and_their_orphans(subject: Subject) -> None:
    for wall in UNTIL_BEGUN_S:
        marker = uuid.uuid4().hex
        outcome, was_seen = await _with_daemon(subject, marker, {"wall": wall})
        expect.ended(outcome, Status.TIMEOUT, limit_name="wall")
        await until_gone(marker)
        if was_seen:
            return
    expect.that(False, "the daemon was never seen: this check can tell nothing")


async def _with_daemon(subject: Subject, marker: str, limits: dict[str, float]) -> tuple[Outcome, bool]:
    """The outcome of a call that hangs, and whether the daemon that it left was seen alive."""
    was_seen = False
    async with aclosing(subject.sandbox.stream(DAEMON, {"marker": marker, "hangs": True}, limits=limits)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event.outcome, was_seen
            was_seen = was_seen or bool(processes_with(marker))
    raise AssertionError("the stream has no outcome")


async def check_what_a_call_leaves_running_ends_with_it(subject: Subject) -> None:
    marker = uuid.uuid4().hex
    outcome = await subject.sandbox.run(DAEMON, {"marker": marker, "hangs": False})
    expect.same(expect.ok(outcome).value, "left")
    await until_gone(marker)
