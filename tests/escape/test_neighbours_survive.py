"""Attack: take so much that the neighbours in the box starve: processes, memory, disk, output, processors, descriptors.

While the attack goes on, calls of the same box are made one after the other, for as long as it takes an attack to bite;
each has to be answered, in time.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final

import pytest

from sandbox import Finished, Outcome, Sandbox, Status
from tests.escape.engines import Engine, call

HEAD: Final = (
    "import mmap, os, signal, socket, sys, threading, time\ndef tool() -> None:\n    print('begun', flush=True)\n"
)
HOGS: Final = {
    "a fork bomb": """
    while True:
        try:
            os.fork()
        except OSError:
            pass""",
    "a thread bomb": """
    while True:
        try:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except RuntimeError:
            pass""",
    "a memory hog": """
    while True:
        if os.fork() == 0:
            held = []
            while True:
                held.append(bytearray(b"x" * (1 << 20)))
        os.wait()""",
    "a disk filler": """
    for number in range(10**9):
        try:
            with open(f"/work/{number % 12000}", "ab", 0) as file:
                file.write(b"x" * (1 << 16))
        except OSError:
            pass""",
    "an output flood": """
    while True:
        os.write(1, b"x" * 65536)
        os.write(2, b"x" * 65536)""",
    "a processor hog": """
    for _ in range(8):
        os.fork()
    while True:
        pass""",
    "a descriptor hog": """
    for _ in range(5):
        os.fork()
    held = []
    while True:
        try:
            held.append(os.pipe())
        except OSError:
            time.sleep(0.01)""",
    "a signal storm": """
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for _ in range(4):
        os.fork()
    while True:
        os.kill(0, signal.SIGUSR1)""",
}
LIMITS: Final = {"wall": 30, "memory": 128 << 20, "disk": 64 << 20}
ORDINARY: Final = """
import os

def tool() -> str:
    with open("/work/file", "w") as file:
        file.write("x" * 100_000)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    print("x" * 1000)
    return str(bytearray(1 << 20)[:1])
"""
_BITES_AFTER_S: Final = 0.7
_IN_TIME_S: Final = 20.0
"""Long before the hog is ended for its own time."""


@pytest.mark.slow
@pytest.mark.parametrize("hog", HOGS)
def test_neighbours_are_answered_in_time(hog: str, sandbox: Sandbox) -> None:
    sandbox.run(ORDINARY)
    with closing(sandbox.stream(HEAD + HOGS[hog], limits=LIMITS)) as events:
        assert not isinstance(next(events), Finished)
        outcomes, slowest = _called_for(sandbox, seconds=_BITES_AFTER_S)
    assert [outcome for outcome in outcomes if outcome.status is not Status.OK] == []
    assert {outcome.timing.path for outcome in outcomes} == {"warm"}
    assert slowest < _IN_TIME_S


def _called_for(sandbox: Sandbox, *, seconds: float) -> tuple[list[Outcome], float]:
    """The outcomes of call after call, and how long the slowest took."""
    begun, outcomes, slowest = time.monotonic(), [], 0.0
    while time.monotonic() < begun + seconds:
        before = time.monotonic()
        outcomes.append(sandbox.run(ORDINARY))
        slowest = max(slowest, time.monotonic() - before)
    return outcomes, slowest


@pytest.mark.slow
@pytest.mark.parametrize("hog", HOGS)
def test_a_neighbour_is_answered_without_root(hog: str, without_root: Engine) -> None:
    begun = time.monotonic()
    _, outcome = without_root.run_during(call(HEAD + HOGS[hog], limits=LIMITS), call(ORDINARY))
    assert outcome.status is Status.OK, outcome
    assert time.monotonic() - begun < _IN_TIME_S
