"""The first call of a new engine, which opens a box, sets up isolation and starts a runner.

*New engine* runs in a warm Python process, as in a server that opens a box for a new tenant. *New process* is the cost
of a script: from before `import sandbox` to the outcome, and, seen from outside, including the interpreter's start and
the engine's close.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from time import perf_counter
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.calls import call
from benchmarks.floors import BARE_FORK, FRESH_PYTHON, open_floor
from benchmarks.report import Report, at_most, build_report, ratio, spread
from benchmarks.turns import take_turns
from sandbox import AsyncSandbox

_NEW_ENGINE: Final = "new engine, first call"
_CLOSING: Final = "closing the engine"
_NEW_PROCESS: Final = "new process, import and first call"
_WHOLE_PROCESS: Final = "new process, from start to exit"
_PROGRAM: Final = """
from time import perf_counter
begun = perf_counter()
from sandbox import Sandbox
with Sandbox() as sandbox:
    outcome = sandbox.run("def add(a: int, b: int) -> int:\\n    return a + b\\n", {"a": 2, "b": 3})
    assert outcome.value == 5, outcome.to_json()
    print((perf_counter() - begun) * 1000)
"""


def measure(*, is_quick: bool) -> Report:
    """Measure first calls."""
    return asyncio.run(_measure(rounds=1 if is_quick else 25))


async def _measure(*, rounds: int) -> Report:
    closings: list[float] = []
    processes: list[float] = []

    async def new_engine() -> float:
        begun = perf_counter()
        sandbox = AsyncSandbox()
        try:
            await call(sandbox)
            return (perf_counter() - begun) * 1000
        finally:
            begun = perf_counter()
            await sandbox.close()
            closings.append((perf_counter() - begun) * 1000)

    async def whole_process() -> float:
        begun = perf_counter()
        processes.append(_first_call_of_a_process())
        return (perf_counter() - begun) * 1000

    with open_floor("spawn") as spawn, open_floor("fork") as fork:
        cases = {_NEW_ENGINE: new_engine, _WHOLE_PROCESS: whole_process}
        floors = {FRESH_PYTHON: spawn.measure_in_turn, BARE_FORK: fork.measure_in_turn}
        found = await take_turns({**cases, **floors}, rounds=rounds)
    floor = {name: spread(found.pop(name)) for name in floors}
    case = {name: spread(values) for name, values in found.items()}
    case[_CLOSING] = spread(closings[-rounds:])
    case[_NEW_PROCESS] = spread(processes[-rounds:])
    goal = at_most(f"{_NEW_ENGINE} / {FRESH_PYTHON}", ratio(case[_NEW_ENGINE], floor[FRESH_PYTHON]), 3.0)
    return build_report("cold_call", cases=case, floors=floor, goals=[goal])


def _first_call_of_a_process() -> float:
    answer = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    return float(answer.stdout)


if __name__ == "__main__":
    run_alone(measure)
