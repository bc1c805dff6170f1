"""Attacks that take everything: processes, memory, files, output, time.

The limits of these calls are small, so that a host without a limit comes to no harm: an endless loop ends after a few
hundred MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sandbox.doctor.attacks.attack import TRYING, Attack, Program, Verdict, ending_of, ends_at, nothing_gained
from sandbox.outcome import Outcome, Status

_MIB: Final = 1 << 20
_PROCESSES: Final = 16
_OURS_AMONG_PROCESSES: Final = 8
_MAX_TEXT: Final = 4 * _MIB

_FORK: Final = """
import os, time

def attack() -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.fork()
        except OSError:
            time.sleep(0.001)
"""
_SHARED_OUT: Final = """
import os, time

CHILDREN, EACH, ENOUGH = 12, 32, 6

def ended() -> set:
    found = set()
    try:
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            found.add(pid)
    except ChildProcessError:
        pass
    return found

def attack() -> dict:
    # each has little, all of them four times what they may
    read, write = os.pipe()
    for _ in range(CHILDREN):
        if os.fork() == 0:
            held = [b"x" * (1 << 20) for _ in range(EACH)]
            os.write(write, os.getpid().to_bytes(4, "little"))
            time.sleep(20)
            os._exit(0)
    os.set_blocking(read, False)
    full, gone = set(), set()
    end = time.monotonic() + 8
    while len(full | gone) < CHILDREN and time.monotonic() < end:
        time.sleep(0.01)
        gone |= ended()
        try:
            full.add(int.from_bytes(os.read(read, 4), "little"))
        except BlockingIOError:
            continue
    # who was full may have been ended for who came after
    time.sleep(0.2)
    alive = len(full - gone - ended())
    return {"tried": 1, "gained": [str(alive * EACH) + " MiB"] if alive >= ENOUGH else []}
"""
_MEMORY_FILES: Final = f"""{TRYING}
import mmap

MIB, MOST = 1 << 20, 384
held = []

def fill_files() -> None:
    for number in range(MOST // 16):
        held.append(os.memfd_create("attack%d" % number))
        for _ in range(16):
            os.write(held[-1], bytes(MIB))

def let_go_of_shared_memory() -> None:
    # the process no longer has these pages, the kernel keeps them
    held.append(mmap.mmap(-1, MOST * MIB))
    for start in range(0, MOST * MIB, MIB):
        held[-1][start : start + MIB] = b"x" * MIB
        held[-1].madvise(mmap.MADV_DONTNEED, start, MIB)

def fill_segments() -> None:
    for _ in range(MOST):
        number = libc.shmget(0, MIB, 0o600)
        failed(number)
        libc.shmat.restype = ctypes.c_void_p
        place = libc.shmat(number, None, 0)
        ctypes.memset(place, 1, MIB)
        libc.shmdt(ctypes.c_void_p(place))

def attack() -> dict:
    must(attempt("memory of its own", bytearray, MIB))
    attempt("files without a name", fill_files)
    attempt("shared memory that it lets go of", let_go_of_shared_memory)
    attempt("segments that nothing is attached to", fill_segments)
    return report()
"""
_FILL: Final = """
def attack() -> None:
    for number in range(512):
        for place in ("/work", "/tmp", "/dev/shm"):
            with open("%s/full-%d" % (place, number), "wb", buffering=0) as file:
                file.write(bytes(1 << 18))
"""
_SCATTER: Final = """
import os

def attack() -> None:
    for number in range(200_000):
        os.close(os.open("/tmp/many-%d" % number, os.O_CREAT | os.O_WRONLY))
"""
_FLOOD: Final = """
import os, time

def attack() -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        os.write(1, b"x" * 65536)
        os.write(2, b"\\xff\\n" * 32768)
"""
_STAY: Final = """
import os, signal, time

def attack(marker: str) -> None:
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execv("/bin/sleep", [marker, "60"])
        os._exit(0)
    time.sleep(20)
"""


def _stays_few(outcomes: Sequence[Outcome]) -> Verdict:
    outcome = outcomes[-1]
    verdict = ends_at("processes", "cpu", "wall")(outcomes)
    peak = outcome.usage.processes_peak
    if peak is not None and peak > _PROCESSES + _OURS_AMONG_PROCESSES:
        return Verdict(held=False, how=f"it had {peak} processes where {_PROCESSES} are allowed")
    most = "" if peak is None else f", with {peak} processes at most"
    return Verdict(held=verdict.held, how=f"{verdict.how}{most}")


def _gets_no_memory(outcomes: Sequence[Outcome]) -> Verdict:
    # The kernel may kill the call, or only some of its processes.
    outcome = outcomes[-1]
    if outcome.status is not Status.OK:
        return ends_at("memory")(outcomes)
    peak, verdict = outcome.usage.memory_peak_bytes, nothing_gained(outcomes)
    most = "" if peak is None else f", with {peak // _MIB} MiB at most"
    return Verdict(held=verdict.held, how=f"{verdict.how}{most}")


def _is_counted_or_refused(outcomes: Sequence[Outcome]) -> Verdict:
    # Only a control group counts such memory; without one, the filter refuses it.
    if outcomes[-1].status is Status.OK:
        return nothing_gained(outcomes)
    return ends_at("memory", "disk", "file_size")(outcomes)


def _is_cut(outcomes: Sequence[Outcome]) -> Verdict:
    outcome = outcomes[-1]
    kept = len(outcome.stdout.text) + len(outcome.stderr.text)
    if kept > _MAX_TEXT:
        return Verdict(held=False, how=f"{kept} characters of it were kept")
    verdict = ends_at("output", "wall", "cpu")(outcomes)
    return Verdict(held=verdict.held, how=f"{ending_of(outcome)}, {kept // 1024} KiB of its text were kept")


EXHAUSTION: Final = (
    Attack(
        "endless processes",
        "fork in every process; ignore all signals, and leave a process in a session of its own",
        (
            Program(
                "fork bomb",
                _FORK,
                _stays_few,
                limits={"processes": _PROCESSES, "wall": 2},
                in_a_machine="it ended its own machine",
            ),
            Program("never ending", _STAY, ends_at("wall"), facts=("marker",), limits={"wall": 1}),
        ),
    ),
    Attack(
        "memory",
        "take four times its memory in twelve processes, and in files and segments that no process has mapped",
        (
            Program(
                "memory over many processes", _SHARED_OUT, _gets_no_memory, limits={"memory": 96 * _MIB, "wall": 30}
            ),
            Program(
                "memory that no process has",
                _MEMORY_FILES,
                _is_counted_or_refused,
                limits={"memory": 96 * _MIB, "disk": 32 * _MIB, "file_size": 32 * _MIB, "wall": 30},
            ),
        ),
    ),
    Attack(
        "disk and output",
        "fill every writable place, make files and print without end",
        (
            Program("disk", _FILL, ends_at("disk", "memory"), limits={"disk": 8 * _MIB, "wall": 30}),
            Program(
                "number of files",
                _SCATTER,
                ends_at("inodes", "disk", "memory"),
                limits={"inodes": 256, "memory": 96 * _MIB, "wall": 30},
            ),
            Program("flood of output", _FLOOD, _is_cut, limits={"output": _MIB, "wall": 2}),
        ),
    ),
)
