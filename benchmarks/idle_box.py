"""The memory of a box that waits for its next call, against a bare Python that waits beside it.

Counted is the proportional set size, in which a page shared by several processes counts once between them: forked
children share most of theirs. A bare Python waits at its prompt, and another, the smallest there can be, was started as
the box's interpreter is and has imported nothing. They wait at the same time, so that all share what they can alike. A
box is looked at right after calls, with its children forked ahead, and, for the goal, after the quiet time in which it
lets the surplus of them go.
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
    """Run it."""
    return asyncio.run(_measure(calls=5 if is_quick else 50, patience_s=1.0 if is_quick else _LONGEST_S))


async def _measure(*, calls: int, patience_s: float) -> Report:
    with ExitStack() as stack:
        bare = {name: stack.enter_context(_bare_python(arguments)) for name, arguments in ARGUMENTS.items()}
        others = {process.pid for process in bare.values()}
        cases = await _default_box(others, calls=calls, patience_s=patience_s)
        store = stack.enter_context(temporary_folder())
        await build(store, _REQUIREMENTS)
        cases |= await _default_box(others, calls=calls, patience_s=patience_s, store=store)
        async with AsyncSandbox(policy=on_demand_policy()) as sandbox:
            for _ in range(calls):
                await call(sandbox)
            await asyncio.sleep(_SETTLING_S)
            cases[_NONE_AHEAD] = megabytes(_box(besides=others))
        floors = {name: megabytes([psutil.Process(process.pid)]) for name, process in bare.items()}
    goals = [
        at_most(f"{_IDLE} / {PROMPT}", ratio(cases[_IDLE], floors[PROMPT]), 1.3),
        at_most(f"{_IDLE}, with a requirement / {PROMPT}", ratio(cases[f"{_IDLE}{_PACKAGES}"], floors[PROMPT]), 2.3),
    ]
    return build_report("idle_box", cases=cases, floors=floors, goals=goals)


async def _default_box(
    others: set[int], *, calls: int, patience_s: float, store: Path | None = None
) -> dict[str, Spread]:
    """A box right after calls, and idle; with a store, one whose template has imported a package from there."""
    requirements, suffix = ((), "") if store is None else (_REQUIREMENTS, _PACKAGES)
    async with AsyncSandbox(policy="default", store=store) as sandbox:
        for _ in range(calls):
            await call(sandbox, requirements=requirements)
        await asyncio.sleep(_SETTLING_S)
        after_calls = megabytes(_box(besides=others))
        await _fewer_processes(others, than=len(_box(besides=others)), within_s=patience_s)
        await asyncio.sleep(_SETTLING_S)
        return {f"{_AFTER_CALLS}{suffix}": after_calls, f"{_IDLE}{suffix}": megabytes(_box(besides=others))}


async def _fewer_processes(others: set[int], *, than: int, within_s: float) -> None:
    """Wait until the box has let a child go; a box that keeps all it has is as idle as it gets."""
    for _ in range(round(within_s / _STEP_S)):
        if len(_box(besides=others)) < than:
            return
        await asyncio.sleep(_STEP_S)


@contextmanager
def _bare_python(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The box's interpreter with nothing to do; it has said that it is up."""
    command = [str(bare_environment().python), *arguments]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate(b"\n")


def _box(*, besides: set[int]) -> list[psutil.Process]:
    """Every process of the box: all that descend from us but those."""
    return [each for each in psutil.Process().children(recursive=True) if each.pid not in besides]


def megabytes(processes: list[psutil.Process]) -> Spread:
    """Their memory; not known where this user may not look into a box."""
    try:
        return spread([sum(map(_bytes, processes)) / _MIB], unit="MiB")
    except psutil.AccessDenied:
        return spread([], unit="MiB")


def _bytes(process: psutil.Process) -> int:
    """What one process holds; one that has ended since it was found holds nothing."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    run_alone(measure)
