"""Calls per second: 32 callers at once against one, and a thousand calls in flight.

*One caller* is a closed loop under the default policy: the next call starts when the last has its outcome, so some
calls find a child forked ahead and some do not; engine, zygote and child already overlap in it. The goal multiplies
this rate with the number of processors. Because that caller keeps more than one processor busy, the benchmark also
measures a caller whose engine and boxes have a single processor, and a caller that gets only children forked on demand.

Rounds alternate between the three callers and the floors, which are closed loops as well; a ratio of two rates is the
median over rounds. The benchmark measures isolated forks alone and several at once, which shows how well the kernel
itself scales when processes create and remove namespaces.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from pydantic import JsonValue

from benchmarks.alone import run_alone
from benchmarks.calls import ARGUMENTS, SOURCE, call, on_demand_policy
from benchmarks.floors import BARE_FORK, FRESH_PYTHON, WALLED_FORKS, Floor, open_floor
from benchmarks.report import Report, at_least, at_most, build_report, spread
from sandbox import AsyncSandbox, Outcome, Status

_CALLERS: Final = 32
_ONE: Final = "one caller"
_CONFINED: Final = "one caller, kept to one processor"
_MANY: Final = f"{_CALLERS} callers"
_ON_DEMAND: Final = "one caller, forked on demand"
_FORKING_AT_ONCE: Final = 6
WALLED_AT_ONCE: Final = f"{WALLED_FORKS}, {_FORKING_AT_ONCE} at once"


@dataclass(frozen=True, slots=True)
class _Extent:
    rounds: int
    round_s: float
    in_flight: int


def measure(*, is_quick: bool) -> Report:
    """Measure rates."""
    return asyncio.run(_measure(_Extent(1, 0.2, 32) if is_quick else _Extent(7, 2.0, 1000)))


async def _measure(extent: _Extent) -> Report:
    async with AsyncExitStack() as stack:
        fork, spawn = (stack.enter_context(open_floor(kind)) for kind in ("fork", "spawn"))
        walled = [stack.enter_context(open_floor("guarded")) for _ in range(_FORKING_AT_ONCE)]
        warm = await stack.enter_async_context(AsyncSandbox())
        unforked = await stack.enter_async_context(AsyncSandbox(policy=on_demand_policy()))
        confined = await stack.enter_async_context(AsyncSandbox())
        loops: dict[str, Callable[[], Awaitable[float]]] = {
            _ONE: lambda: _measure_callers(warm, 1, seconds=extent.round_s),
            _CONFINED: lambda: _measure_on_one_processor(confined, seconds=extent.round_s),
            _MANY: lambda: _measure_callers(warm, _CALLERS, seconds=extent.round_s),
            _ON_DEMAND: lambda: _measure_callers(unforked, 1, seconds=extent.round_s),
            BARE_FORK: lambda: _measure_floor(fork, seconds=extent.round_s / 4),
            FRESH_PYTHON: lambda: _measure_floor(spawn, seconds=extent.round_s / 4),
            WALLED_FORKS: lambda: _measure_floors(walled[:1], seconds=extent.round_s / 2),
            WALLED_AT_ONCE: lambda: _measure_floors(walled, seconds=extent.round_s / 2),
        }
        rates = await _measure_rates(loops, rounds=extent.rounds)
        flight = await _run_flight(warm, extent.in_flight)
    return _build_report(rates, flight)


def _build_report(rates: dict[str, list[float]], flight: dict[str, JsonValue]) -> Report:
    cpus = len(os.sched_getaffinity(0))
    scaling, using = f"{_MANY} / ({cpus} processors x {_ONE})", f"{_MANY} / ({cpus} processors x {_CONFINED})"
    share = _share(rates[_MANY], rates[_ONE], cpus=cpus)
    found = {name: spread(values, unit="calls/s") for name, values in rates.items()}
    return build_report(
        "throughput",
        cases={name: found[name] for name in (_ONE, _CONFINED, _MANY, _ON_DEMAND)},
        floors={name: found[name] for name in (BARE_FORK, FRESH_PYTHON, WALLED_FORKS, WALLED_AT_ONCE)},
        ratios={
            scaling: share,
            f"{_MANY} / ({cpus} processors x {_ON_DEMAND})": _share(rates[_MANY], rates[_ON_DEMAND], cpus=cpus),
            f"{WALLED_AT_ONCE} / ({cpus} processors x one)": _share(
                rates[WALLED_AT_ONCE], rates[WALLED_FORKS], cpus=cpus
            ),
        },
        goals=[
            at_least(scaling, share, 0.8),
            at_least(using, _share(rates[_MANY], rates[_CONFINED], cpus=cpus), 0.8),
            at_most(f"errors of {flight['calls']} calls in flight", _count_errors(flight), 0),
        ],
        notes={"in_flight": flight},
    )


def _share(many: list[float], one: list[float], *, cpus: int) -> float:
    """Return the rate as a share of the processors' number times the single rate, in the median round."""
    return round(statistics.median(most / (least * cpus) for most, least in zip(many, one, strict=True)), 4)


async def _measure_rates(loops: dict[str, Callable[[], Awaitable[float]]], *, rounds: int) -> dict[str, list[float]]:
    """Return calls per second by round, without the first round, which only warms up."""
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(rounds + 1):
        for name in random.sample(list(loops), len(loops)):
            rate = await loops[name]()
            if turn:
                rates[name].append(rate)
    return rates


async def _measure_floor(floor: Floor, *, seconds: float) -> float:
    """Return how often per second the floor's process measures by itself."""
    begun = perf_counter()
    milliseconds: list[float] = []
    while perf_counter() - begun < seconds:
        milliseconds.append(floor.measure())
    return 1000 * len(milliseconds) / sum(milliseconds)


async def _measure_floors(floors: Sequence[Floor], *, seconds: float) -> float:
    """Return the rate of several floor processes at once."""
    begun = perf_counter()

    def keep_forking(floor: Floor) -> int:
        done = 0
        while perf_counter() - begun < seconds:
            floor.measure()
            done += 1
        return done

    done = await asyncio.gather(*(asyncio.to_thread(keep_forking, floor) for floor in floors))
    return sum(done) / (perf_counter() - begun)


async def _measure_callers(sandbox: AsyncSandbox, callers: int, *, seconds: float) -> float:
    """Run closed loops until the time is up. Calls in flight finish, and both they and their time count."""
    begun = perf_counter()

    async def keep_calling() -> int:
        done = 0
        while perf_counter() - begun < seconds:
            await call(sandbox)
            done += 1
        return done

    done = await asyncio.gather(*(keep_calling() for _ in range(callers)))
    return sum(done) / (perf_counter() - begun)


async def _measure_on_one_processor(sandbox: AsyncSandbox, *, seconds: float) -> float:
    """Return the rate of a caller whose engine has one processor meanwhile. The box has one since its first call."""
    with _keep_to_one_processor():
        return await _measure_callers(sandbox, 1, seconds=seconds)


@contextmanager
def _keep_to_one_processor() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


async def _run_flight(sandbox: AsyncSandbox, count: int) -> dict[str, JsonValue]:
    """Start that many calls at once; the engine runs as many as its concurrency allows."""
    begun = perf_counter()
    outcomes = await asyncio.gather(*(sandbox.run(SOURCE, ARGUMENTS) for _ in range(count)), return_exceptions=True)
    seconds = perf_counter() - begun
    ends = Counter(_describe_end(outcome) for outcome in outcomes)
    return {"calls": count, "seconds": round(seconds, 3), "ends": dict(ends)}


def _describe_end(outcome: Outcome | BaseException) -> str:
    return outcome.status.value if isinstance(outcome, Outcome) else type(outcome).__name__


def _count_errors(flight: dict[str, JsonValue]) -> int:
    ends = flight["ends"]
    assert isinstance(ends, dict)
    return sum(count for end, count in ends.items() if end != Status.OK and isinstance(count, int))


if __name__ == "__main__":
    run_alone(measure)
