"""Parts of the machinery that are killed from outside: calls end as they must, and nothing stays behind.

An engine that a test kills runs in a process of its own. The test lists the engine's processes before, because
afterwards nothing connects the orphans to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psutil
import pytest

from sandbox import Sandbox, Status
from sandbox.policy import load
from tests.checkout import ROOT
from tests.end_to_end.calls import (
    ENDLESS,
    PATIENCE_S,
    TRIVIAL,
    all_of_boxes,
    groups_of,
    serves,
    under_way,
    wait_until,
    zygotes,
)

pytestmark = pytest.mark.slow

GONE_WITHIN_S: Final = 60.0
STUBBORN: Final = """
import os, signal, time
def tool() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # of others Python warns
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                while True: time.sleep(60)
            os._exit(0)
    os.write(1, b"ready\\n")  # at once
    while True: pass
"""
EVERYTHING: Final = 2 + 2 * 4  # a warden and a zygote; for each call a guard, the tool and two that it left running
TWO_CALLS: Final = """
import sys, threading
from sandbox import Sandbox
said = threading.Barrier(3)
def follow():
    for event in engine.stream(sys.argv[1]):
        said.wait()
engine = Sandbox()
for _ in range(2): threading.Thread(target=follow, daemon=True).start()
said.wait()
print("under way", flush=True)
sys.stdin.read()
"""
IDLE: Final = """
import sys
from sandbox import Sandbox
engine = Sandbox()
engine.run("def tool(): return 1")
print("idle", flush=True)
sys.stdin.read()
"""
OPENING: Final = """
import sys, threading
from sandbox import Sandbox
engine = Sandbox()
def run_on():
    for n in range(99): engine.run("def tool(): return 1", tenant=str(n))
threading.Thread(target=run_on, daemon=True).start()
print("opening", flush=True)
sys.stdin.read()
"""
FORKED: Final = """
import os, sys
from sandbox import Sandbox
engine = Sandbox()
engine.run("def tool(): return 1")
if os.fork() == 0:
    os.closerange(1, 3)
    sys.stdin.read()
    os._exit(0)
print("forked", flush=True)
sys.stdin.read()
"""


@contextmanager
def _engine(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An engine in a process of its own that has said how far it is."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        try:
            assert engine.stdout.readline(), "the engine did not start"
            yield engine
        finally:
            engine.kill()


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    living = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living


def _assert_nothing_left(engine: subprocess.Popen[str], found: list[psutil.Process]) -> None:
    assert wait_until(lambda: not _living(found), within=GONE_WITHIN_S), _living(found)
    assert wait_until(lambda: not groups_of(engine.pid), within=GONE_WITHIN_S), groups_of(engine.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_boxes_die_with_their_engine_whatever_runs_in_them(number: signal.Signals) -> None:
    with _engine(TWO_CALLS, STUBBORN) as engine:
        running = psutil.Process(engine.pid)
        assert wait_until(lambda: len(running.children(recursive=True)) >= EVERYTHING)
        found = running.children(recursive=True)
        engine.send_signal(number)
        engine.wait()
        _assert_nothing_left(engine, found)


def test_idle_boxes_die_with_their_engine() -> None:
    with _engine(IDLE) as engine:
        found = psutil.Process(engine.pid).children(recursive=True)
        assert found
        engine.kill()
        engine.wait()
        _assert_nothing_left(engine, found)


def test_boxes_die_with_their_engine_while_a_child_of_it_lives_on() -> None:
    """A fork of the engine's process holds copies of all its descriptors."""
    with _engine(FORKED) as engine:
        found = [each for each in psutil.Process(engine.pid).children(recursive=True) if not _is_a_fork(each)]
        assert len(found) >= 2
        engine.kill()
        engine.wait()
        _assert_nothing_left(engine, found)


def _is_a_fork(process: psutil.Process) -> bool:
    """Return whether a process runs the engine's own program. A child of an ending box has no arguments any more."""
    try:
        return "-c" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.parametrize("delay_ms", range(0, 200, 40))
def test_boxes_that_are_opening_die_with_their_engine(delay_ms: int) -> None:
    with _engine(OPENING) as engine:
        deadline = time.monotonic() + delay_ms / 1000
        while time.monotonic() < deadline:
            pass
        found = psutil.Process(engine.pid).children(recursive=True)
        engine.kill()
        engine.wait()
        _assert_nothing_left(engine, found)


def test_an_engine_that_starts_removes_what_a_killed_one_left() -> None:
    with _engine(IDLE) as engine:
        engine.kill()
        engine.wait()
        with Sandbox() as next_engine:
            assert serves(next_engine)
            assert wait_until(lambda: not groups_of(engine.pid)), groups_of(engine.pid)


@pytest.mark.parametrize("part", ["runner", "warden"])
def test_a_call_whose_box_is_killed_crashes_and_the_next_works(part: str) -> None:
    with Sandbox() as engine, under_way(engine, ENDLESS) as call:
        (zygote,) = zygotes()
        everything = all_of_boxes()
        os.kill(zygote.pid if part == "runner" else zygote.ppid(), signal.SIGKILL)
        outcome = call.result(PATIENCE_S)
        assert (outcome.status, outcome.evidence["box"]) == (Status.CRASHED, "lost"), outcome
        assert outcome.stdout.text == "ready\n"
        assert outcome.error is not None
        assert outcome.error.type == "BoxLost"
        assert wait_until(lambda: not _living(everything)), _living(everything)
        assert serves(engine)


def test_every_call_of_a_killed_box_ends() -> None:
    with Sandbox() as engine, under_way(engine, ENDLESS) as first, under_way(engine, ENDLESS) as second:
        (zygote,) = zygotes()
        zygote.kill()
        outcomes = first.result(PATIENCE_S), second.result(PATIENCE_S)
        assert [outcome.status for outcome in outcomes] == [Status.CRASHED] * 2
        assert serves(engine)


def test_a_guard_that_is_killed_ends_its_own_call_only() -> None:
    with Sandbox() as engine, under_way(engine, ENDLESS) as first, under_way(engine, STUBBORN) as second:
        (zygote,) = zygotes()
        guards = [guard for guard in zygote.children() if len(guard.children(recursive=True)) > 2]
        (stubborn,) = guards
        below = stubborn.children(recursive=True)
        stubborn.kill()
        outcome = second.result(PATIENCE_S)
        assert outcome.status is Status.CRASHED, outcome
        assert outcome.stdout.text == "ready\n"
        assert wait_until(lambda: not _living(below)), _living(below)
        assert not first.done()
        assert serves(engine)
        zygote.kill()


def _kill_the_box() -> None:
    """With all that is in it: a child that lives a moment longer may take a call with it."""
    (zygote,) = zygotes()
    everything = all_of_boxes()
    zygote.kill()
    assert wait_until(lambda: not _living(everything))


def test_an_idle_box_that_is_killed_is_not_lent_again() -> None:
    with Sandbox() as engine:
        for _ in range(3):
            assert serves(engine)
            _kill_the_box()
            assert serves(engine)


@pytest.mark.parametrize("part", ["runner", "warden", "both"])
def test_a_box_that_is_stopped_is_given_up(part: str) -> None:
    with Sandbox() as engine, under_way(engine, ENDLESS, limits={"wall": 2}) as call:  # long enough to stop it before
        (zygote,) = zygotes()
        warden = psutil.Process(zygote.ppid())
        everything = all_of_boxes()
        for process in {"runner": [zygote], "warden": [warden], "both": [zygote, warden]}[part]:
            process.suspend()
        outcome = call.result(PATIENCE_S)
        assert (outcome.status, outcome.limit_name) == (Status.TIMEOUT, "wall"), outcome
        assert outcome.stdout.text == "ready\n"
        assert serves(engine)
        assert wait_until(lambda: not _living(everything)), _living(everything)


def test_a_call_that_a_stopped_box_did_not_begin_is_made_in_another() -> None:
    policy = load("default")
    unforked = policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})
    with Sandbox(policy=unforked) as engine:
        assert serves(engine)
        (zygote,) = zygotes()
        zygote.suspend()
        outcome = engine.run(TRIVIAL, {"a": 1, "b": 2}, limits={"wall": 1})
        assert (outcome.status, outcome.value, outcome.timing.path) == (Status.OK, 3, "cold")
        assert wait_until(lambda: not zygote.is_running())


def test_an_engine_with_a_stopped_box_still_closes() -> None:
    with Sandbox() as engine:
        assert serves(engine)
        (zygote,) = zygotes()
        zygote.suspend()
    assert wait_until(lambda: not zygote.is_running())
