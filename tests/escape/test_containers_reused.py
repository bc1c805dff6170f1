"""Attacks on the next call in a container that is kept: its init, its runner, the child that waits, what is left.

A container serves one call at a time, and many one after the other. All of them are one user to the kernel, so what a
process of the container has not closed off itself is open to each of its calls.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from sandbox import Sandbox, Status
from tests.end_to_end.calls import zygotes
from tests.escape.attempts import ATTEMPT
from tests.escape.container_engines import KEPT, SERVE, Besieged, box, opened, variants

__all__ = ["box", "opened"]

pytestmark = [pytest.mark.slow, pytest.mark.root]
_MIB: Final = 1 << 20
_PATIENCE_S: Final = 60.0


TAMPER: Final = f"""{ATTEMPT}
import time

SAID = {{"oom_score_adj": "1000", "oom_adj": "15", "autogroup": "19", "coredump_filter": "0", "clear_refs": "1",
        "comm": "attacked", "timerslack_ns": "1", "loginuid": "1", "sched": "0"}}

def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)

def tool() -> list:
    done, own, end = set(), os.readlink("/proc/self"), time.monotonic() + 0.5
    assert attempt(write, "/proc/self/oom_score_adj", "1000") == "done"
    while time.monotonic() < end:
        for pid in os.listdir("/proc"):
            for file, text in SAID.items():
                path = "/proc/" + pid + "/" + file
                if pid.isdigit() and pid != own and attempt(write, path, text) == "done":
                    done.add(path)
        time.sleep(0.01)
    return sorted(done)
"""


@variants(KEPT)
def test_no_call_changes_the_state_of_the_containers_other_processes(box: Besieged) -> None:
    """Such as who goes first when memory runs out: the container's init would, and every later call with it."""
    assert box.value(TAMPER) == []


SEEN: Final = """
import os

def tool() -> dict:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/" + pid + "/status") as file:
                found[pid] = dict(line.split(":", 1) for line in file)["NSpid"].split()[1:]
        except OSError:
            continue
    return found
"""


@variants(KEPT)
def test_a_call_reads_nothing_about_the_containers_other_processes(box: Besieged) -> None:
    box.serves()
    assert sorted(box.value(SEEN).values()) == [["1"], ["2"]], "its guard, and itself"


SIGNAL_GUARD: Final = f"""{ATTEMPT}
def tool() -> str:
    for number in range(1, 65):
        attempt(os.kill, 1, number)
    return "still there"
"""


@variants(KEPT)
def test_no_signal_reaches_the_guard_in_a_container(box: Besieged) -> None:
    assert box.value(SIGNAL_GUARD) == "still there"


FILL: Final = """
def tool(mib: int) -> int:
    for number in range(mib // 40):
        with open("/work/full-%d" % number, "wb") as file:
            for _ in range(40):
                file.write(bytes(1 << 20))
    return mib
"""
HOLD: Final = """
def tool(mib: int) -> int:
    return len([b"x" * (1 << 20) for _ in range(mib)])
"""


@variants(KEPT)
def test_memory_that_a_call_left_in_files_is_not_missed_by_the_next(box: Besieged) -> None:
    """Two thirds of what a call may have are in files that vanish with it; at once the next takes nearly all."""
    for _ in range(3):
        assert box.value(FILL, {"mib": 240}) == 240
        outcome = box.run(HOLD, {"mib": 440})
        assert (outcome.status, outcome.timing.path) == (Status.OK, "warm"), outcome.error


@variants(KEPT)
def test_memory_that_a_call_left_in_files_is_not_counted_for_the_next(box: Besieged) -> None:
    assert box.value(FILL, {"mib": 240}) == 240
    outcome = box.run(SERVE)
    assert (outcome.value, outcome.timing.path) == ("served", "warm")
    assert (outcome.usage.memory_peak_bytes or 0) < 64 * _MIB


LEAVE_OPEN: Final = f"""{ATTEMPT}
def tool() -> dict:
    # what the kernel counts for a user, over all of its processes
    kept, counts = [], {{}}
    makers = {{"inotify": lambda: libc.inotify_init1(0), "epoll": lambda: libc.epoll_create1(0),
              "pseudoterminals": lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY),
              "queues": lambda: libc.msgget(0, 0o1600), "memory": lambda: libc.shmget(0, 4096, 0o1600)}}
    for what, make in makers.items():
        counts[what] = 0
        for _ in range(40):
            try:
                made = make()
            except OSError:
                break
            if made < 0:
                break
            kept.append(made)
            counts[what] += 1
    return counts
"""


@variants(KEPT)
def test_what_is_counted_for_the_containers_user_is_given_back(box: Besieged) -> None:
    first = box.value(LEAVE_OPEN)
    assert first["epoll"]
    assert [box.value(LEAVE_OPEN) for _ in range(5)] == [first] * 5


STOP: Final = f"""{ATTEMPT}
def tool() -> str:
    for number in ("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGKILL"):
        for pid in (*range(2, 400), -1):
            if pid != os.getpid():
                attempt(os.kill, pid, getattr(signal, number))
                attempt(os.killpg, pid, getattr(signal, number))
    return "tried"
"""


@variants(KEPT)
def test_a_container_whose_call_signalled_everybody_serves_on(box: Besieged) -> None:
    assert box.value(STOP) == "tried"
    outcome = box.run(SERVE)
    assert (outcome.value, outcome.timing.path) == ("served", "warm")


OWN_NAMESPACE: Final = """
import os

def tool() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
"""


def test_a_child_that_waits_for_its_call_is_closed_to_the_one_that_runs() -> None:
    """Only root may read its entries in /proc before it has a call, because both have the same user to the kernel.

    While its guard verifies it, its entries are its own. At that time the child holds no request yet, and the call that
    runs cannot name the child: that call has its own pid namespace, and sees no other in /proc.
    """
    with Sandbox(backend="subprocess") as engine:
        called = int(str(engine.run(OWN_NAMESPACE).value))
        deadline = time.monotonic() + _PATIENCE_S
        owners: list[int] = []
        while (len(owners) < 2 or set(owners) != {0}) and time.monotonic() < deadline:
            time.sleep(0.01)
            owners = _owners_of_waiting_children(called)
        assert len(owners) >= 2, "no child is forked ahead: this test can tell nothing"
        assert set(owners) == {0}


def _owners_of_waiting_children(called: int) -> list[int]:
    """Return the owners of the entries of each isolated process that waits for a call: a guard and its tool.

    A call that has just ended may still have processes; their own namespace excludes them.
    """
    return [owner for zygote in zygotes() for child in _children(zygote) for owner in _owner(child.pid, called)]


def _owner(pid: int, called: int) -> list[int]:
    """Return None for a process that is gone, is in the call's namespace, or still has rights for its isolation."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        if os.stat(f"/proc/{pid}/ns/pid").st_ino == called or f"CapEff:\t{0:016x}" not in status:
            return []
        return [os.stat(f"/proc/{pid}/environ").st_uid]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
