"""The memory of a box that waits for its next call, against a bare Python that waits at the same time.

The benchmark counts the proportional set size, which divides a shared page among the processes that share it: forked
children share most of their pages. A bare Python waits at its prompt, and another, the smallest possible one, starts
like the box's interpreter and has imported nothing. All wait at the same time, so that all can share the same pages.
The benchmark reads a box right after calls, with its children forked ahead, and, for the goal, after the quiet time in
which the box ends the surplus children.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

import psutil

from benchmarks.alone import run_alone
from benchmarks.calls import call, on_demand_policy
from benchmarks.environment_stores import build, temporary_folder
from benchmarks.report import Report, Spread, at_most, build_report, ratio, spread
from sandbox import AsyncSandbox
from sandbox.environments import bare_environment

PROMPT: Final = "bare python, waiting at its prompt"
SMALLEST: Final = "the smallest python, waiting"
ARGUMENTS: Final = {PROMPT: ("-i",), SMALLEST: ("-I", "-S", "-c", "print(flush=True); input()")}
_AFTER_CALLS: Final = "warm box, right after calls"
_IDLE: Final = "warm box, idle"
_NONE_AHEAD: Final = "warm box without children ahead"
_PACKAGES: Final = ", with a requirement"
_REQUIREMENTS: Final = ("six",)
_LONGEST_S: Final = 15.0
_STEP_S: Final = 0.1
_SETTLING_S: Final = 0.2
_MIB: Final = 1 << 20


def measure(*, is_quick: bool) -> Report:
    """Measure idle boxes."""
    return asyncio.run(_measure(calls=5 if is_quick else 50, patience_s=0.2 if is_quick else _LONGEST_S))


async def _measure(*, calls: int, patience_s: float) -> Report:
    with ExitStack() as stack:
        bare = {name: stack.enter_context(_start_python(arguments)) for name, arguments in ARGUMENTS.items()}
        others = {process.pid for process in bare.values()}
        cases = await _measure_box(others, calls=calls, patience_s=patience_s)
        store = stack.enter_context(temporary_folder())
        await build(store, _REQUIREMENTS)
        cases |= await _measure_box(others, calls=calls, patience_s=patience_s, store=store)
        async with AsyncSandbox(policy=on_demand_policy()) as sandbox:
            for _ in range(calls):
                await call(sandbox)
            await asyncio.sleep(_SETTLING_S)
            cases[_NONE_AHEAD] = megabytes(_list_processes(besides=others))
        floors = {name: megabytes([psutil.Process(process.pid)]) for name, process in bare.items()}
    goals = [
        at_most(f"{_IDLE} / {PROMPT}", ratio(cases[_IDLE], floors[PROMPT]), 1.3),
        at_most(f"{_IDLE}, with a requirement / {PROMPT}", ratio(cases[f"{_IDLE}{_PACKAGES}"], floors[PROMPT]), 2.3),
    ]
    return build_report("idle_box", cases=cases, floors=floors, goals=goals)


async def _measure_box(
    others: set[int], *, calls: int, patience_s: float, store: Path | None = None
) -> dict[str, Spread]:
    """Return the memory of a box right after calls, and idle. With a store, its template has imported packages."""
    requirements, suffix = ((), "") if store is None else (_REQUIREMENTS, _PACKAGES)
    async with AsyncSandbox(policy="default", store=store) as sandbox:
        for _ in range(calls):
            await call(sandbox, requirements=requirements)
        await asyncio.sleep(_SETTLING_S)
        after_calls = megabytes(_list_processes(besides=others))
        await _wait_for_fewer(others, than=len(_list_processes(besides=others)), within_s=patience_s)
        await asyncio.sleep(_SETTLING_S)
        return {f"{_AFTER_CALLS}{suffix}": after_calls, f"{_IDLE}{suffix}": megabytes(_list_processes(besides=others))}


async def _wait_for_fewer(others: set[int], *, than: int, within_s: float) -> None:
    """Wait until the box has ended a child. A box that keeps all its children is as idle as it gets."""
    for _ in range(round(within_s / _STEP_S)):
        if len(_list_processes(besides=others)) < than:
            return
        await asyncio.sleep(_STEP_S)


@contextmanager
def _start_python(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the box's interpreter with nothing to do, and wait until it is up."""
    command = [str(bare_environment().python), *arguments]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate(b"\n")


def _list_processes(*, besides: set[int]) -> list[psutil.Process]:
    """Return the processes of the box: all descendants of this process except the given ones."""
    return [each for each in psutil.Process().children(recursive=True) if each.pid not in besides]


def megabytes(processes: list[psutil.Process]) -> Spread:
    """Return the memory of the processes, or None if this user may not read a box's memory."""
    try:
        return spread([sum(map(_measure_process, processes)) / _MIB], unit="MiB")
    except psutil.AccessDenied:
        return spread([], unit="MiB")


def _measure_process(process: psutil.Process) -> int:
    """Return the memory of a process, or 0 if the process has ended since."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    run_alone(measure)
