"""Every limit, met on purpose, is distinct from all others and from a crash."""

from __future__ import annotations

import time
from typing import Final

from sandbox.outcome import Status
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import Subject

_MIB: Final = 1 << 20

SPIN: Final = "def spin() -> None:\n    while True:\n        pass\n"
SLEEP: Final = "import time\n\ndef sleep() -> None:\n    time.sleep(600)\n"
HOARD: Final = """
def hoard() -> None:
    kept = []
    while True:
        kept.append(bytearray(b"x" * (1 << 20)))
"""
FORK: Final = """
import os, time

def fork_on() -> None:
    while True:
        if os.fork() == 0:
            time.sleep(600)
"""
THREADS: Final = """
import threading, time

def start_threads() -> None:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""
FILL: Final = """
def fill() -> None:
    for number in range(100):
        with open(f"file{number}", "wb") as file:
            file.write(bytes(1 << 18))
"""
SCATTER: Final = """
def scatter() -> None:
    for number in range(100_000):
        open(f"file{number}", "w").close()
"""
GROW: Final = """
def grow() -> None:
    with open("file", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
"""
HOLD_OPEN: Final = """
def hold_open() -> None:
    held = []
    while True:
        held.append(open("/dev/null"))
"""
RETURN_MUCH: Final = "def return_much(size: int) -> str:\n    return 'x' * size\n"
COUNT_CPUS: Final = (
    "import os\n\ndef count_cpus() -> list:\n    return [os.cpu_count(), len(os.sched_getaffinity(0))]\n"
)
COPE: Final = """
def cope() -> str:
    try:
        with open("file", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    except OSError:
        return "coped"
"""
WORK: Final = """
def work(count: int) -> int:
    kept = bytearray(b"x" * (48 << 20))
    for _ in range(count):
        pass
    return len(kept)
"""
_COUNT: Final = 10_000_000


async def _meets(subject: Subject, source: str, limit_name: str, **limits: float) -> None:
    outcome = await subject.sandbox.run(source, limits=limits)
    expect.ended(outcome, Status.LIMIT, limit_name=limit_name)
    expect.that("limit" in outcome.evidence, f"the evidence is {outcome.evidence}")


async def check_the_time_on_the_clock(subject: Subject) -> None:
    outcome = await subject.sandbox.run(SLEEP, limits={"wall": 0.4})
    expect.ended(outcome, Status.TIMEOUT, limit_name="wall")
    expect.that(0.4 <= outcome.usage.wall_s < 60, f"it took {outcome.usage.wall_s} s")


async def check_the_processor_time(subject: Subject) -> None:
    await _meets(subject, SPIN, "cpu", cpu=0.3)


async def check_the_memory(subject: Subject) -> None:
    outcome = await subject.sandbox.run(HOARD, limits={"memory": 96 * _MIB})
    expect.ended(outcome, Status.MEMORY, limit_name="memory")


async def check_the_processes(subject: Subject) -> None:
    await _meets(subject, FORK, "processes", processes=12)


async def check_the_threads(subject: Subject) -> None:
    await _meets(subject, THREADS, "processes", processes=12)


async def check_the_disk(subject: Subject) -> None:
    await _meets(subject, FILL, "disk", disk=4 * _MIB)


async def check_the_number_of_files(subject: Subject) -> None:
    await _meets(subject, SCATTER, "inodes", inodes=64)


async def check_the_size_of_a_file(subject: Subject) -> None:
    await _meets(subject, GROW, "file_size", file_size=_MIB)


async def check_the_open_files(subject: Subject) -> None:
    await _meets(subject, HOLD_OPEN, "open_files", open_files=32)


async def check_the_size_of_the_value(subject: Subject) -> None:
    outcome = await subject.sandbox.run(RETURN_MUCH, {"size": 5000}, limits={"value": 1000})
    expect.ended(outcome, Status.LIMIT, limit_name="value")
    expect.same(outcome.value, None)


async def check_the_size_of_the_arguments(subject: Subject) -> None:
    source = "def take(text: str) -> int:\n    return len(text)\n"
    outcome = await subject.sandbox.run(source, {"text": "x" * 2000}, limits={"arguments": 1000})
    expect.ended(outcome, Status.INVALID)


async def check_a_tool_that_copes_with_a_limit_is_ok(subject: Subject) -> None:
    outcome = await subject.sandbox.run(COPE, limits={"file_size": _MIB})
    expect.same(expect.ok(outcome).value, "coped")


async def check_a_tool_sees_how_many_processors_it_has(subject: Subject) -> None:
    outcome = await subject.sandbox.run(COUNT_CPUS, limits={"cpus": 1})
    expect.same(expect.ok(outcome).value, [1, 1])


async def check_what_a_call_used_is_measured(subject: Subject) -> None:
    here = _seconds_of_counting()
    usage = expect.ok(await subject.sandbox.run(WORK, {"count": _COUNT})).usage
    expect.that(here / 4 < (usage.cpu_s or 0) < 4 * here + 1, f"processor time: {usage.cpu_s}, and {here} here")
    expect.that((usage.memory_peak_bytes or 0) > 48 * _MIB, f"memory: {usage.memory_peak_bytes}")
    expect.that(0.01 < usage.wall_s < 100, f"time: {usage.wall_s}")


def _seconds_of_counting() -> float:
    """Return how long the tool's work takes in this thread: a box's own clock cannot measure the box."""
    begun = time.thread_time()
    for _ in range(_COUNT):
        pass
    return time.thread_time() - begun
