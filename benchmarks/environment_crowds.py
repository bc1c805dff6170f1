"""Many environments and many callers: the store shares files, and concurrent requests share one build.

*Disk*: ten environments with numpy, each with another small package, against one; a file with many names counts once,
and wheels do not count. *One for all*: several engines on one store, each with callers that ask for the same new
environment at the same moment; the engines' progress reports count the builds. *Different ones*: eight builds at once
in one engine, each against the same build alone; afterwards the benchmark reads every file of every environment. Two
comparisons show how much of the slowdown is due to the processors: the same builds one after the other, and `uv` alone,
for all eight at once and for each alone, in the same rounds, with a new empty cache each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.bare_uv import BareUv
from benchmarks.calls import ARGUMENTS, SOURCE
from benchmarks.environment_stores import build, disk, temporary_folder
from benchmarks.report import Report, Spread, at_least, at_most, build_report, merge, ratio, spread
from sandbox import AsyncSandbox, Outcome, Status
from sandbox.environments.progress import Progress
from sandbox.environments.store.store import Store

_EXTRAS: Final = (
    "six",
    "idna",
    "iniconfig",
    "toml",
    "tabulate",
    "termcolor",
    "decorator",
    "pluggy",
    "zipp",
    "colorama",
)
_DIFFERENT: Final = ("attrs", "click", "docutils", "jinja2", "networkx", "pygments", "requests", "rich")
_ALONE: Final = "one build alone"


@dataclass(frozen=True, slots=True)
class _Extent:
    """The sizes of the crowd."""

    shared: str
    extras: Sequence[str]
    engines: int
    callers: int
    different: Sequence[str]
    rounds: int


def measure(*, is_quick: bool) -> Report:
    """Measure crowds."""
    quick, full = _Extent("pluggy", _EXTRAS[:2], 2, 4, _EXTRAS[:2], 1), _Extent("numpy", _EXTRAS, 5, 50, _DIFFERENT, 5)
    return asyncio.run(_measure(quick if is_quick else full))


async def _measure(extent: _Extent) -> Report:
    parts = [
        await _disk(extent.shared, extent.extras),
        await _one_for_all(extent.engines, extent.callers),
        await _different(extent.different, extent.rounds),
    ]
    return merge("environment_crowds", parts)


async def _disk(shared: str, extras: Sequence[str]) -> Report:
    many, one_alone = f"{len(extras)} environments with {shared}", f"one environment with {shared}"
    with temporary_folder() as folder:
        store = Store(folder)
        sizes = []
        for extra in extras:
            await build(folder, (shared, extra))
            sizes.append(disk(store.environments, store.packages))
        with_wheels = disk(folder)
    one, all_ = (spread([size], unit="MiB") for size in (sizes[0], sizes[-1]))
    return build_report(
        "disk",
        cases={many: all_},
        floors={one_alone: one},
        goals=[at_most(f"{many} / {one_alone}, disk", ratio(all_, one), 1.15)],
        notes={"store_with_wheels_mib": round(with_wheels, 1)},
    )


async def _one_for_all(engines: int, callers: int) -> Report:
    records: list[Progress] = []
    with temporary_folder() as folder:
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(AsyncSandbox(store=folder, on_progress=records.append))
                for _ in range(engines)
            ]
            calls = [opened[number % engines].run(SOURCE, ARGUMENTS, requirements=["six"]) for number in range(callers)]
            begun = perf_counter()
            outcomes = await asyncio.gather(*calls)
            seconds = perf_counter() - begun
    builds = sum(progress.stage == "publish" for progress in records)
    return build_report(
        "one_for_all",
        cases={f"{callers} callers of one new environment": spread([seconds * 1000])},
        floors={},
        goals=[
            at_most(f"builds, when {callers} callers want the same", builds or None, 1),
            at_least("of those, calls with the right answer", sum(map(_is_correct, outcomes)), callers),
        ],
        notes={"engines": engines, "environments": len({_key(outcome) for outcome in outcomes})},
    )


def _is_correct(outcome: Outcome) -> bool:
    return outcome.status is Status.OK and outcome.value == 5


def _key(outcome: Outcome) -> str | None:
    return outcome.environment.key if outcome.environment else None


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Milliseconds of each member by name: alone, and at once with all others."""

    alone: dict[str, list[float]]
    at_once: dict[str, list[float]]

    @property
    def ratios(self) -> dict[str, float | None]:
        """Return how many times as long each member takes with the others."""
        return {name: ratio(spread(self.at_once[name]), spread(self.alone[name])) for name in self.alone}

    @property
    def in_turn(self) -> Spread:
        return spread([sum(values) for values in zip(*self.alone.values(), strict=True)])

    @property
    def together(self) -> Spread:
        return spread([max(values) for values in zip(*self.at_once.values(), strict=True)])


async def _different(different: Sequence[str], rounds: int) -> Report:
    damaged = 0
    with temporary_folder() as folder:
        stores, uv = (folder / str(number) for number in count()), BareUv(folder / "uv")

        async def build_all(names: Sequence[str]) -> list[float]:
            nonlocal damaged
            times, bad = await _build_all(next(stores), names)
            damaged += bad
            return times

        async def install_all(names: Sequence[str]) -> list[float]:
            return await asyncio.gather(*(uv.cold([name]) for name in names))

        builds, installs = _make_crowd(different), _make_crowd(different)
        for _ in range(rounds):
            await _join(builds, build_all)
            await _join(installs, install_all)
    return _build_report(builds, installs, damaged=damaged)


def _make_crowd(names: Sequence[str]) -> _Crowd:
    return _Crowd({name: [] for name in names}, {name: [] for name in names})


async def _join(crowd: _Crowd, measure_all: Callable[[Sequence[str]], Awaitable[list[float]]]) -> None:
    """Measure another round: each member alone, then all at once."""
    names = [*crowd.alone]
    for asked, found in [*(([name], crowd.alone) for name in names), (names, crowd.at_once)]:
        for name, milliseconds in zip(asked, await measure_all(asked), strict=True):
            found[name].append(milliseconds)


def _build_report(builds: _Crowd, installs: _Crowd, *, damaged: int) -> Report:
    all_, uvs = f"{len(builds.alone)} builds", f"{len(installs.alone)} uv"
    slowest, slowest_uv = _find_slowest(builds.ratios.values()), _find_slowest(installs.ratios.values())
    return build_report(
        "different",
        cases={f"one of {all_} at once": _spread_all(builds.at_once), f"all {all_}, at once": builds.together},
        floors={
            _ALONE: _spread_all(builds.alone),
            f"all {all_}, one after the other": builds.in_turn,
            "one uv alone": _spread_all(installs.alone),
            f"one of {uvs} at once": _spread_all(installs.at_once),
            f"all {uvs}, at once": installs.together,
            f"slowest of {uvs} at once / alone": spread([slowest_uv] if slowest_uv else [], unit="times"),
        },
        ratios={
            **{f"{name}: at once / alone": value for name, value in builds.ratios.items()},
            **{f"uv, {name}: at once / alone": value for name, value in installs.ratios.items()},
            "slowest at once / alone, builds / uv": round(slowest / slowest_uv, 4) if slowest and slowest_uv else None,
        },
        goals=[
            at_most(f"slowest of {all_} at once / alone", slowest, 2.5),
            at_most("of those, environments that are not as published", damaged, 0),
        ],
    )


def _spread_all(found: Mapping[str, list[float]]) -> Spread:
    return spread([value for values in found.values() for value in values])


async def _build_all(store: Path, requirements: Sequence[str]) -> tuple[list[float], int]:
    """Return the milliseconds of each build, started at once in a new engine on an empty store, and the number of
    damaged environments."""
    async with AsyncSandbox(store=store) as sandbox:
        times = await asyncio.gather(*(_time_build(sandbox, each) for each in requirements))
    return [*times], await asyncio.to_thread(_count_damaged, store, len(requirements))


async def _time_build(sandbox: AsyncSandbox, requirement: str) -> float:
    begun = perf_counter()
    await sandbox.build(requirements=[requirement])
    return (perf_counter() - begun) * 1000


def _count_damaged(folder: Path, expected: int) -> int:
    """Return the number of environments that are missing or have a changed file."""
    store = Store(folder)
    found = store.list()
    intact = sum(store.verify(each.key).is_intact for each in found)
    return max(expected, len(found)) - intact


def _find_slowest(ratios: Iterable[float | None]) -> float | None:
    known = [value for value in ratios if value is not None]
    return max(known, default=None)


if __name__ == "__main__":
    run_alone(measure)
