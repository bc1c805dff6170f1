"""Tools that do not end, or leave something behind that does not: the call is over in time, and everything of it."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final

import pytest

from sandbox import Printed, Sandbox, Status
from tests.end_to_end.calls import out_of_time, serves

pytestmark = [pytest.mark.usefixtures("harmless"), pytest.mark.slow]

HEAD: Final = "import os, signal, sys, threading, time\ndef tool():\n    print('before')\n"
MUCH_LATER_S: Final = 60.0

ENDLESS: Final = {
    "a loop that holds the interpreter": "while True: pass",
    "one step of C that holds the interpreter": "sum(iter(int, 1))",
    "one big power": "10 ** 10 ** 10",
    "a catastrophic pattern": "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
    "sleep": "time.sleep(3600)",
    "a wait for input that never comes": "r, w = os.pipe(); os.read(r, 1)",
    "ignored signals": "[signal.signal(n, signal.SIG_IGN) for n in (2, 15, 1, 3)]\n    while True: pass",
    "blocked signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n    while True: pass",
    "exceptions that are swallowed": """while True:
        try:
            while True: pass
        except BaseException: pass""",
    "an endless generator": "yield from iter(int, 1)",
    "waiting for a deadlock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "waiting for an endless child": "os.waitpid(os.fork() or time.sleep(3600) or 0, 0)",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_call_that_does_not_end_is_ended_at_its_time(kind: str, sandbox: Sandbox) -> None:
    begun = time.monotonic()
    outcome = out_of_time(sandbox, f"{HEAD}    {ENDLESS[kind]}\n")
    assert (outcome.status, outcome.limit_name) == (Status.TIMEOUT, "wall"), outcome
    limit, measured = (float(str(outcome.evidence[name])) for name in ("limit", "measured"))
    assert 0.4 <= limit <= measured == pytest.approx(outcome.usage.wall_s, abs=0.01)
    assert outcome.stdout.text == "before\n"
    assert time.monotonic() - begun < MUCH_LATER_S


def test_processor_time_is_limited_by_itself(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    while True: pass\n", limits={"cpu": 0.5})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "cpu"), outcome
    assert float(str(outcome.evidence["measured"])) >= 0.5
    assert outcome.stdout.text == "before\n"


def test_processor_time_of_all_processes_counts_together(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    [os.fork() for _ in range(3)]\n    while True: pass\n", limits={"cpu": 1})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "cpu"), outcome


STAYING: Final = {
    "a child": "if os.fork() == 0: time.sleep(3600)",
    "a child of a child in a session of its own": """if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            time.sleep(3600)
        os._exit(0)""",
    "the same, ignoring and blocking signals": """if os.fork() == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        if os.fork() == 0:
            while True: pass
        os._exit(0)""",
    "a child that holds on to stdout": "if os.fork() == 0: time.sleep(3600) or os._exit(0)",
    "children that make children": """if os.fork() == 0:
        while True:
            if os.fork(): os._exit(0)""",
    "a program": "import subprocess; subprocess.Popen(['sleep', '3600'], start_new_session=True)",
    "a stopped child": "if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)",
    "zombies": "[os.fork() or os._exit(0) for _ in range(30)]",
    "threads": "[threading.Thread(target=time.sleep, args=(3600,)).start() for _ in range(10)]",
    "threads that work": "threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()",
    "exit handlers that hang": "import atexit; atexit.register(time.sleep, 3600)",
    "objects whose end hangs": "tool.x = type('X', (), {'__del__': lambda self: time.sleep(3600)})()",
    "a thread pool's exit handler": """from concurrent.futures import ThreadPoolExecutor
    ThreadPoolExecutor().submit(time.sleep, 3600)""",
    "a stdout that hangs when flushed": """class Stream:
        def write(self, text): pass
        def flush(self): raise SystemExit
    sys.stdout = Stream()""",
}


@pytest.mark.parametrize("kind", STAYING)
def test_a_call_is_over_when_its_function_returned(kind: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    {STAYING[kind]}\n    return 'returned'\n")
    assert (outcome.status, outcome.value) == (Status.OK, "returned"), outcome
    assert outcome.stdout.text == "before\n"


def test_what_a_child_printed_before_the_end_is_not_lost(sandbox: Sandbox) -> None:
    code = "if os.fork() == 0:\n        print('child'); os._exit(0)\n    os.wait()\n    return 1"
    assert sandbox.run(f"{HEAD}    {code}\n").stdout.text == "before\nchild\n"


@pytest.mark.parametrize(
    "disturbed",
    [
        "time.sleep = exec",
        "signal.signal(signal.SIGALRM, exec); signal.setitimer(signal.ITIMER_REAL, 0.0004, 0.0001)",
    ],
)
def test_a_call_that_returned_ends_well_if_a_signal_wakes_it(disturbed: str, sandbox: Sandbox) -> None:
    """The process lets the engine read the value before it ends. Events in between are no part of the call."""
    source = f"{HEAD}    {disturbed}\n    return 'x'\n"
    statuses = {sandbox.run(source).status for _ in range(5)}
    assert Status.CRASHED not in statuses
    assert "time.sleep" not in disturbed or statuses == {Status.OK}


@pytest.mark.parametrize("reserve", ["os.fork()", "threading.Thread(target=time.sleep, args=(60,)).start()"])
def test_a_fork_bomb_meets_its_limit_and_the_engine_lives(reserve: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    while True: {reserve}\n", limits={"processes": 16})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "processes"), outcome
    assert outcome.evidence["limit"] == 16
    assert (outcome.usage.processes_peak or 16) <= 16
    assert outcome.stdout.text == "before\n"


BOMB: Final = """
import os
def tool() -> None:
    first, is_told = os.getpid(), False
    while True:
        try:
            os.fork()
        except OSError:
            if os.getpid() == first and not is_told:
                is_told = os.write(1, b"refused\\n") > 0
"""


def test_a_fork_bomb_that_swallows_refusals_ends_at_its_time(sandbox: Sandbox) -> None:
    outcome = out_of_time(sandbox, BOMB, first_s=1.0, processes=32)
    assert outcome.status is Status.TIMEOUT, outcome
    assert int(str(outcome.evidence["refused_forks"])) > 0
    assert outcome.stdout.text == "refused\n"
    assert serves(sandbox)


def test_neighbours_of_a_fork_bomb_can_fork(sandbox: Sandbox) -> None:
    source = """
import os
def tool() -> str:
    for _ in range(20):
        try:
            pid = os.fork()
        except OSError:
            return "refused"
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
    return "forked"
"""
    with closing(sandbox.stream(BOMB)) as events:
        assert isinstance(next(events), Printed)
        outcomes = sandbox.map(source, [{}] * 2)
    assert [outcome.value for outcome in outcomes] == ["forked"] * 2, outcomes
