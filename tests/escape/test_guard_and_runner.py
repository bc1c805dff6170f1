"""Attack: kill, stop, trace, read or strangle the processes that watch over a call: its guard, which is process 1 of
its namespace, the zygote behind that, the engine, and the neighbours' processes.

A tool can use its guard only to end or slow its own call; the proof of the isolation is that the call is still
answered, measured, and followed by others in the same box.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import pytest

from sandbox import Sandbox, Status
from tests.end_to_end.calls import zygotes
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine, call

HARMLESS: Final = "def tool() -> str:\n    return 'served'\n"
SIGNAL: Final = f"""{ATTEMPT}
import time

def tool(number: int) -> str:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    attempt(os.kill, 1, number)
    attempt(signal.pidfd_send_signal, os.pidfd_open(1), number)
    attempt(lambda: libc.sigqueue(1, number, None))
    attempt(lambda: libc.tgkill(1, 1, number))
    state = open("/proc/1/stat").read().rpartition(")")[2].split()[0]
    return state
"""
# The ones that end, stop or abort a process, and the runner's own.
SIGNALS: Final = (
    "SIGKILL",
    "SIGTERM",
    "SIGSTOP",
    "SIGTSTP",
    "SIGABRT",
    "SIGSEGV",
    "SIGCHLD",
    "SIGXCPU",
    "SIGSYS",
    "SIGINT",
)


@pytest.mark.parametrize("name", SIGNALS)
def test_no_signal_reaches_the_guard(name: str, engine: Engine) -> None:
    outcome = engine.run(SIGNAL, {"number": int(signal.Signals[name])})
    assert outcome.status is Status.OK, outcome
    assert outcome.value in ("S", "R"), "it neither stopped nor ended; a call may come before it has gone to sleep"
    assert outcome.usage.cpu_s is not None
    _assert_serves(engine)


def _assert_serves(engine: Engine) -> None:
    """The box of before serves the next call too."""
    outcome = engine.run(HARMLESS)
    assert (outcome.status, outcome.value, outcome.timing.path) == (Status.OK, "served", "warm")


STRANGLE: Final = f"""{ATTEMPT}
import resource

def tool() -> str:
    for name in ("STACK", "AS", "DATA", "FSIZE", "NPROC", "NOFILE", "CPU", "MEMLOCK", "SIGPENDING"):
        attempt(resource.prlimit, 1, getattr(resource, "RLIMIT_" + name), (0, 0))
    attempt(os.sched_setaffinity, 1, {{0}})
    attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
    attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
    return "tried"
"""


def test_who_strangles_its_guard_ends_its_own_call_at_most(engine: Engine) -> None:
    """The guard has the tool's user to the kernel, so the tool may lower its limits.

    The kernel kills a guard that cannot grow its stack, and its call with it.
    """
    outcome = engine.run(STRANGLE)
    assert (outcome.status, outcome.value) in ((Status.OK, "tried"), (Status.CRASHED, None)), outcome
    assert outcome.usage.cpu_s is not None
    assert engine.value(HARMLESS) == "served"


def test_who_strangles_its_guard_harms_no_neighbour(engine: Engine) -> None:
    strangles = STRANGLE.replace('"STACK", ', "")  # so that it lives on
    stays = strangles.replace('    return "tried"', "    print('tried', flush=True)\n    __import__('time').sleep(20)")
    said, neighbour = engine.run_during(call(stays), call(HARMLESS))
    assert (said.strip(), neighbour.value) == ("tried", "served")


EVERYBODY: Final = f"""{ATTEMPT}
def tool(pids: list) -> list:
    own = {{os.getpid(), 1}}
    reached = []
    for pid in set(pids) - own:
        reached += [("kill", pid)] if attempt(os.kill, pid, signal.SIGCONT) == "done" else []
        reached += [("pidfd", pid)] if attempt(os.pidfd_open, pid) == "done" else []
        reached += [("group", pid)] if attempt(os.killpg, pid, signal.SIGCONT) == "done" else []
        reached += [("proc", pid)] if os.path.exists(f"/proc/{{pid}}") else []
    return reached
"""


def test_processes_of_the_host_have_no_number_here(sandbox: Sandbox) -> None:
    outcome = sandbox.run(HARMLESS)
    runners = [process.pid for process in zygotes()]
    assert runners, outcome
    pids = [os.getpid(), os.getppid(), *runners, *range(3, 300)]
    found = sandbox.run(EVERYBODY, {"pids": pids})
    assert (found.status, found.value) == (Status.OK, [])


KILL_ALL: Final = f"""{ATTEMPT}
def tool() -> None:
    # all but ourselves: -1, then all numbers, then whoever has our user id
    attempt(os.kill, -1, signal.SIGKILL)
    for pid in range(1, 1000):
        if pid != os.getpid():
            attempt(os.kill, pid, signal.SIGKILL)
    attempt(os.setpriority, os.PRIO_USER, os.getuid(), 19)
    os.kill(0, signal.SIGKILL)
"""
SLEEPER: Final = "import time\ndef tool() -> None:\n    print('sleeping', flush=True)\n    time.sleep(20)\n"
STATE: Final = "import os\ndef tool() -> list:\n    return [os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)]\n"


def test_killing_everybody_is_only_suicide(engine: Engine) -> None:
    """By -1, by all numbers, by the process group."""
    outcome = engine.run(KILL_ALL)
    assert (outcome.status, outcome.evidence["signal"]) == (Status.CRASHED, "SIGKILL")
    assert engine.value(STATE) == [2, 0]


@pytest.mark.slow
def test_killing_everybody_leaves_a_neighbour_running(engine: Engine) -> None:
    patient = (
        "import time\ndef tool() -> str:\n    print('here', flush=True)\n    time.sleep(0.5)\n    return 'alive'\n"
    )
    _, killer = engine.run_during(call(SLEEPER), call(KILL_ALL))
    assert killer.status is Status.CRASHED
    _, neighbour = engine.run_during(call(KILL_ALL.replace("def tool() -> None:", _AFTER_A_WORD)), call(patient))
    assert (neighbour.status, neighbour.value) == (Status.OK, "alive")


_AFTER_A_WORD: Final = """def tool() -> None:
    import time
    print("about to", flush=True)
    time.sleep(0.2)
"""

MEMORY: Final = f"""{ATTEMPT}
def read(path: str) -> None:
    with open(path, "rb", 0) as memory:
        memory.seek(0x400000)
        memory.read(1)

def trace(request: int, pid: int) -> None:
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None) < 0:
        raise OSError(ctypes.get_errno(), "")

def take(number: int) -> None:
    if libc.syscall(438, os.pidfd_open(1), number, 0) < 0:
        raise OSError(ctypes.get_errno(), "")

def tool() -> dict:
    return {{
        "memory": attempt(read, "/proc/1/mem"),
        "a task's memory": attempt(read, "/proc/1/task/1/mem"),
        "attach": attempt_apart(trace, 16, 1),
        "seize": attempt_apart(trace, 0x4206, 1),
        "descriptors": sorted({{attempt(take, number) for number in range(8)}}),
        "the tool itself": attempt_apart(trace, 16, os.getpid()),
        "descriptor links": attempt(os.listdir, "/proc/1/fd"),
    }}
"""


def test_the_guards_memory_and_descriptors_are_its_own(engine: Engine) -> None:
    assert engine.value(MEMORY) == {
        "memory": "EACCES",
        "a task's memory": "EACCES",
        "attach": "SIGSYS",
        "seize": "SIGSYS",
        "descriptors": ["EPERM"],
        "the tool itself": "SIGSYS",
        "descriptor links": "EACCES",
    }


def test_what_is_used_behind_a_strangled_guard_is_counted(engine: Engine) -> None:
    outcome = engine.run(STRANGLE.replace('    return "tried"', "    sum(range(3_000_000))\n    return 'tried'"))
    assert (outcome.usage.cpu_s or 0) > 0.01
