"""The cost of an environment for a call: finding it in the store, and importing from it.

*Found*: a trivial tool, with and without a requirement, in a warm box and as the first call of a new engine, with one
environment in the store and with a thousand. The report gives the difference twice: as the engine counts it
(`environment_ms`), and end to end, including the box's work. A new process, which also imports the modules that find
environments, is measured too, without a goal.

*Imports*: a tool that imports numpy and pandas, in a warm box, against a fresh interpreter of the same environment.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.alone import run_alone
from benchmarks.calls import ARGUMENTS, SOURCE, on_demand_policy
from benchmarks.environment_stores import build, fill, temporary_folder
from benchmarks.report import Goal, Report, Spread, at_most, build_report, merge, ratio, spread
from benchmarks.turns import Case, take_turns
from sandbox import AsyncSandbox, Outcome, Status
from sandbox.environments.model import Environment

_SMALL: Final = ("six",)
_BARE: Final = "no requirement"
_WARM: Final = "warm call"
_NEW_ENGINE: Final = "new engine's first call"
_NEW_PROCESS: Final = "new process's first call"
_ENVIRONMENT_MS: Final = "environment_ms"
_AHEAD: Final = "warm call importing them, forked ahead"
_ON_DEMAND: Final = "warm call importing them, forked on demand"
_ADDING: Final = "import {}\n\ndef add(a: int, b: int) -> int:\n    return int(numpy.add(a, b))\n"
_PAUSE_S: Final = 0.02
_PROGRAM: Final = """
import json, sys
from sandbox import Sandbox
store, source, arguments, *requirements = sys.argv[1:]
with Sandbox(store=store) as sandbox:
    print(sandbox.run(source, json.loads(arguments), requirements=requirements).timing.environment_ms)
"""


class _Caller:
    """A kind of call, which keeps `environment_ms` of each call and whether its child was forked ahead."""

    def __init__(self, call: Callable[[], Awaitable[tuple[float, Outcome]]], *, is_ahead: bool | None = None) -> None:
        self._call = call
        self._is_ahead = is_ahead
        self.environment_ms: list[float] = []

    async def measure(self) -> float | None:
        milliseconds, outcome = await self._call()
        if self._is_ahead not in (None, outcome.timing.ahead):
            return None
        self.environment_ms.append(outcome.timing.environment_ms)
        return milliseconds


def measure(*, is_quick: bool) -> Report:
    """Measure calls with environments."""
    return asyncio.run(_measure(is_quick=is_quick))


async def _measure(*, is_quick: bool) -> Report:
    if is_quick:
        parts = [await _found(1, many=5), await _imports(1, packages=("numpy",))]
    else:
        parts = [await _found(40, many=1000), await _imports(40, packages=("numpy", "pandas"))]
    return merge("environment_calls", parts)


async def _found(rounds: int, *, many: int) -> Report:
    stores = {f"{count} stored": count for count in (1, many)}
    with temporary_folder() as folder:
        for name, count in stores.items():
            await build(folder / name, _SMALL)
            fill(folder / name, count)
        async with AsyncExitStack() as stack:
            warm = {
                name: await stack.enter_async_context(AsyncSandbox(store=folder / name)) for name in (_BARE, *stores)
            }
            warmed = {name: _Caller(_warm_call(warm[name], _build_fields(name)), is_ahead=True) for name in warm}
            found_warm = await take_turns(_cases(warmed), rounds=2 * rounds, pause_s=_PAUSE_S)
        fresh = {name: _Caller(_first_call(folder / name, _build_fields(name))) for name in (_BARE, *stores)}
        found_fresh = await take_turns(_cases(fresh), rounds=rounds)
        processes = {name: _new_process(folder / name, _build_fields(name)) for name in (_BARE, *stores)}
        found_new = await take_turns(processes, rounds=max(rounds // 4, 1), warm_up_rounds=1)
    added = [_compare(_WARM, found_warm, warmed, 2 * rounds), _compare(_NEW_ENGINE, found_fresh, fresh, rounds)]
    times = {f"{_NEW_PROCESS}, {name}: {_ENVIRONMENT_MS}": spread(values) for name, values in found_new.items()}
    goals = [goal for report in added for goal in report.goals]
    return build_report("found", cases={**added[0].cases, **added[1].cases, **times}, floors={}, goals=goals)


def _cases(callers: Mapping[str, _Caller]) -> dict[str, Case]:
    return {name: caller.measure for name, caller in callers.items()}


def _build_fields(name: str) -> dict[str, Any]:
    return {} if name == _BARE else {"requirements": [*_SMALL]}


def _warm_call(
    sandbox: AsyncSandbox, fields: Mapping[str, Any], *, source: str = SOURCE
) -> Callable[[], Awaitable[tuple[float, Outcome]]]:
    async def call() -> tuple[float, Outcome]:
        begun = perf_counter()
        outcome = await sandbox.run(source, ARGUMENTS, **fields)
        return (perf_counter() - begun) * 1000, _check(outcome)

    return call


def _first_call(store: Path, fields: Mapping[str, Any]) -> Callable[[], Awaitable[tuple[float, Outcome]]]:
    async def call() -> tuple[float, Outcome]:
        begun = perf_counter()
        sandbox = AsyncSandbox(store=store)
        try:
            outcome = await sandbox.run(SOURCE, ARGUMENTS, **fields)
            return (perf_counter() - begun) * 1000, _check(outcome)
        finally:
            await sandbox.close()

    return call


def _new_process(store: Path, fields: Mapping[str, Any]) -> Case:
    command = [sys.executable, "-c", _PROGRAM, str(store), SOURCE, json.dumps(ARGUMENTS)]
    command += fields.get("requirements", [])

    async def measured() -> float:
        return float(_run_program(command))

    return measured


def _run_program(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _check(outcome: Outcome) -> Outcome:
    """Return the duration, provided that the call gave the right answer."""
    if outcome.status is not Status.OK or outcome.value != 5:
        raise RuntimeError(f"the measured call went wrong: {outcome.to_json()}")
    return outcome


def _compare(what: str, found: Mapping[str, list[float]], callers: Mapping[str, _Caller], rounds: int) -> Report:
    """Return the difference of the medians with and without the environment."""
    whole = {name: spread(values) for name, values in found.items()}
    part = {name: spread(caller.environment_ms[-rounds:]) for name, caller in callers.items()}
    goals = [
        goal
        for name in whole
        if name != _BARE
        for goal in (
            _build_goal(f"{what}, {name}: milliseconds added to {_ENVIRONMENT_MS}", part[name], part[_BARE]),
            _build_goal(f"{what}, {name}: milliseconds added end to end", whole[name], whole[_BARE]),
        )
    ]
    named = {f"{what}, {name}": values for name, values in whole.items()}
    named |= {f"{what}, {name}: {_ENVIRONMENT_MS}": values for name, values in part.items()}
    return build_report("added", cases=named, floors={}, goals=goals)


def _build_goal(name: str, case: Spread, bare: Spread) -> Goal:
    is_known = case.p50 is not None and bare.p50 is not None
    return at_most(name, round((case.p50 or 0) - (bare.p50 or 0), 4) if is_known else None, 2.0)


async def _imports(rounds: int, *, packages: Sequence[str]) -> Report:
    names = ", ".join(packages)
    fresh = f"fresh python importing {names}"
    with temporary_folder() as folder:
        environment = await build(folder, packages)
        async with (
            AsyncSandbox(store=folder) as warm,
            AsyncSandbox(store=folder, policy=on_demand_policy()) as unforked,
        ):
            fields, source = {"requirements": [*packages]}, _ADDING.format(names)
            callers = {
                _AHEAD: _Caller(_warm_call(warm, fields, source=source), is_ahead=True),
                _ON_DEMAND: _Caller(_warm_call(unforked, fields, source=source), is_ahead=False),
            }
            cases = {**_cases(callers), fresh: _fresh_python(environment, f"import {names}")}
            found = await take_turns(cases, rounds=rounds, pause_s=_PAUSE_S)
    floor = spread(found.pop(fresh))
    cases_found = {name: spread(values) for name, values in found.items()}
    bounds = {_AHEAD: 0.01, _ON_DEMAND: 0.05}
    goals = [at_most(f"{name} / {fresh}", ratio(case, floor), bounds[name]) for name, case in cases_found.items()]
    return build_report("imports", cases=cases_found, floors={fresh: floor}, goals=goals)


def _fresh_python(environment: Environment, statement: str) -> Case:
    """Return the environment's interpreter, with the bytecode that boxes use."""
    assert environment.installed is not None
    command = [str(environment.installed / "bin" / "python"), "-I", "-B", "-c", statement]

    async def measured() -> float:
        return _time_program(command)

    return measured


def _time_program(command: Sequence[str]) -> float:
    begun = perf_counter()
    subprocess.run(command, check=True)
    return (perf_counter() - begun) * 1000


if __name__ == "__main__":
    run_alone(measure)
