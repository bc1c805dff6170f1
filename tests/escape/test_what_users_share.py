"""Attack: use up, or lock, what the kernel counts per user or per file: neighbours and the host have it in common."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox
from sandbox.client.stream import Event
from tests.checkout import ROOT
from tests.escape.engines import Engine, call
from tests.unprivileged import AS_NOBODY

HOLD_INOTIFY: Final = """
import ctypes, time

def tool(hold: bool) -> int:
    libc, held = ctypes.CDLL(None), 0
    while libc.inotify_init() >= 0 and held < (1000 if hold else 1):
        held += 1
    print("holding", flush=True)
    if hold:
        time.sleep(20)
    return held
"""
_FROM_OUTSIDE: Final = """
import ctypes, sys
from sandbox import Sandbox
from sandbox.client.stream import Event
with Sandbox() as engine:
    events = engine.stream(sys.argv[1], {"hold": True})
    next(events)
    print(ctypes.CDLL(None).inotify_init())
    events.close()
"""


@contextmanager
def _under_way(sandbox: Sandbox, source: str, args: dict[str, object]) -> Iterator[Iterator[Event]]:
    """A call that has printed its first words, and ends with the block."""
    with closing(sandbox.stream(source, args)) as events:
        next(events)
        yield events


def test_a_call_leaves_its_neighbours_their_inotify_instances(sandbox: Sandbox) -> None:
    with _under_way(sandbox, HOLD_INOTIFY, {"hold": True}):
        neighbour = sandbox.run(HOLD_INOTIFY, {"hold": False})
    assert neighbour.value == 1


@pytest.mark.slow
def test_a_call_leaves_the_engines_user_its_inotify_instances(unprivileged_python: Path) -> None:
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", _FROM_OUTSIDE, HOLD_INOTIFY],
        cwd="/", capture_output=True, text=True, timeout=220, check=False, **AS_NOBODY,
    )  # fmt: skip
    assert int(answer.stdout) >= 0, answer.stderr


TAKE: Final = """
import ctypes, os, signal, time

libc = ctypes.CDLL(None, use_errno=True)

def queue_a_signal() -> bool:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0

def make_a_timer() -> bool:
    return libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0

def tool(what: str, all_of_it: bool) -> int:
    taken = 0
    while globals()[what]() and taken < (10**6 if all_of_it else 1):
        taken += 1
    print("holding", taken, flush=True)
    if all_of_it:
        time.sleep(20)
    return taken
"""
SHARED: Final = ("queue_a_signal", "make_a_timer")
_HOLDS: Final = {"wall": 30}


@pytest.mark.slow
@pytest.mark.parametrize("what", SHARED)
def test_a_call_leaves_its_neighbours_what_the_kernel_counts_per_user(what: str, engine: Engine) -> None:
    """Signals that wait, and timers, which need one each."""
    greedy = call(TAKE, {"what": what, "all_of_it": True}, limits=_HOLDS)
    said, neighbour = engine.run_during(greedy, call(TAKE, {"what": what, "all_of_it": False}))
    assert said.startswith("holding")
    assert neighbour.value == 1


_QUEUE_FROM_OUTSIDE: Final = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])  # in all threads, before there are others
from sandbox import Sandbox
from sandbox.client.stream import Event
with Sandbox() as engine:
    events = engine.stream(sys.argv[1], {{"what": "queue_a_signal", "all_of_it": True}}, limits={_HOLDS})
    next(events)
    outside = {{}}
    exec(sys.argv[1], outside)
    print(outside["queue_a_signal"]())
    events.close()
"""


@pytest.mark.slow
def test_a_call_leaves_the_engines_user_its_signals(unprivileged_python: Path) -> None:
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", _QUEUE_FROM_OUTSIDE, TAKE],
        cwd="/", capture_output=True, text=True, timeout=220, check=False, **AS_NOBODY,
    )  # fmt: skip
    assert answer.stdout == "True\n", answer.stderr


@pytest.mark.parametrize("shared", ["lock them with `flock`", "`inotify`", "descriptors in flight"])
def test_the_security_page_names_what_boxes_share_with_the_host(shared: str) -> None:
    """Files that are bound into a box are the host's own files: they can be locked and watched, though not changed."""
    assert shared in " ".join((ROOT / "docs" / "security.md").read_text().split())
