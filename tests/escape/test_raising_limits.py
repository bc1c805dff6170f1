"""Attack: give oneself more: higher limits, a higher priority, another scheduler, survival when memory runs out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sandbox import Status
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine

LIMITS: Final = (
    "NOFILE",
    "FSIZE",
    "CPU",
    "DATA",
    "NPROC",
    "CORE",
    "MEMLOCK",
    "MSGQUEUE",
    "NICE",
    "RTPRIO",
    "SIGPENDING",
)
RAISE: Final = f"""{ATTEMPT}
import resource, subprocess

def ways(limit: int, soft: int, hard: int) -> dict:
    more = resource.RLIM_INFINITY
    return {{
        "one more": lambda: resource.setrlimit(limit, (soft, hard + 1)),
        "soft above hard": lambda: resource.setrlimit(limit, (hard + 1, hard)),
        "no limit": lambda: resource.setrlimit(limit, (more, more)),
        "by the guard": lambda: resource.prlimit(1, limit, (soft, hard + 1)),
        "by prlimit": lambda: resource.prlimit(0, limit, (more, more)),
    }}

def tool(names: list) -> list:
    gained = []
    for name in names:
        limit = getattr(resource, "RLIMIT_" + name)
        soft, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY:
            gained.append(name + " is none")
            continue
        for way, act in ways(limit, soft, hard).items():
            try:
                act()
            except (OSError, ValueError):
                continue
            if resource.getrlimit(limit)[1] > hard or resource.prlimit(1, limit)[1] > hard:
                gained.append(name + " " + way)
    return gained
"""


def test_no_limit_can_be_raised(engine: Engine) -> None:
    assert engine.value(RAISE, {"names": LIMITS}) == []


INHERITED: Final = """
import os, resource, subprocess

def tool(names: list) -> bool:
    own = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names]
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        theirs = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names]
        os.write(write, b"same" if theirs == own else b"other")
        os._exit(0)
    shell = subprocess.run(["sh", "-c", "ulimit -Hn; ulimit -Hf"], capture_output=True, text=True).stdout.split()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return os.read(read, 10) == b"same" and int(shell[0]) == files
"""


def test_limits_hold_for_what_a_tool_starts(engine: Engine) -> None:
    assert engine.value(INHERITED, {"names": LIMITS}) is True


PRIORITY: Final = f"""{ATTEMPT}
def ioprio(kind: int) -> None:
    if libc.syscall({{"x86_64": 251, "aarch64": 30}}[os.uname().machine], 1, 0, kind << 13) < 0:
        raise OSError(ctypes.get_errno(), "")

def tool() -> list:
    ways = {{
        "nice": lambda: os.nice(-5),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
        "first in, first out": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)),
        "round robin": lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
        "disk in real time": lambda: ioprio(1),
    }}
    return [name for name, way in ways.items() if attempt(way) == "done"]
"""


def test_no_priority_above_others_can_be_taken(engine: Engine) -> None:
    assert engine.value(PRIORITY) == []


_CAP_SYS_RESOURCE: Final = 24
LAST_TO_GO: Final = f"""{ATTEMPT}
def spare(score: str) -> None:
    with open("/proc/self/oom_score_adj", "w") as own:
        own.write(score)

def tool() -> list:
    before = int(open("/proc/self/oom_score_adj").read())
    for score in ("-1000", "-1", "0", "1", str(before - 1)):
        attempt(spare, score)
    return [before, int(open("/proc/self/oom_score_adj").read())]
"""


@pytest.mark.root
def test_a_tool_cannot_protect_itself_from_the_kernels_memory_killer(ours: Engine) -> None:
    """The kernel must kill a tool before the host's own programs.

    Root can fix the lower bound of the score, unless it lacks the capability for that.
    """
    before, after = ours.value(LAST_TO_GO)
    assert before > 0
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    if int(effective.split()[1], 16) >> _CAP_SYS_RESOURCE & 1:
        assert after >= before


def test_a_tool_goes_before_the_hosts_programs_when_memory_runs_out(engine: Engine) -> None:
    """Unless, where the engine is not root, it says otherwise itself."""
    assert engine.value(LAST_TO_GO)[0] > int(Path("/proc/self/oom_score_adj").read_text())


def test_a_tool_cannot_go_after_the_engine(engine: Engine) -> None:
    assert engine.value(LAST_TO_GO)[1] >= int(Path("/proc/self/oom_score_adj").read_text())


BRIEF_CHILDREN: Final = """
import os, time

def tool() -> None:
    while True:
        if os.fork() == 0:
            while time.process_time() < 0.1:
                pass
            os._exit(0)
        os.wait()
"""


@pytest.mark.slow
def test_without_groups_a_call_gets_no_more_time_than_its_limit(without_root: Engine) -> None:
    """The limit of each process, in whole seconds, is larger; the outcome reports the used time."""
    outcome = without_root.run(BRIEF_CHILDREN, limits={"cpu": 0.2})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "cpu"), outcome
    measured = float(str(outcome.evidence["measured"]))
    assert 0.2 <= measured < 1.0
    assert outcome.usage.cpu_s == pytest.approx(measured, abs=0.05)  # less what its process had used before


HOARDING_CHILD: Final = """
import os, time

def tool() -> None:
    if os.fork() == 0:
        held = bytearray(b"x" * (48 << 20))
        print("held", flush=True)
    while True:
        time.sleep(60)
"""


@pytest.mark.slow
def test_without_groups_a_killed_call_reports_its_observed_usage(without_root: Engine) -> None:
    outcome = without_root.run(HOARDING_CHILD, limits={"wall": 3})
    assert (outcome.status, outcome.stdout.text) == (Status.TIMEOUT, "held\n"), outcome
    assert (outcome.usage.memory_peak_bytes or 0) > 40 << 20
