"""How many calls a second: 32 callers at once against one, and a thousand calls in flight.

*One caller* is a closed loop: the next call starts when the last has its outcome, on the default policy, so some of its
calls find a child forked ahead and some do not; the engine, the zygote and the child already overlap in it. The goal
multiplies its rate with the processors. A caller that only gets children forked on demand is measured too.
Rounds alternate between the three; the ratio is the median of the rounds' own.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
from collections import Counter
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from pydantic import JsonValue

from benchmarks.alone import run_alone
from benchmarks.calls import ARGUMENTS, SOURCE, call, on_demand_policy
from benchmarks.report import Report, at_least, at_most, build_report, spread
from sandbox import AsyncSandbox, Outcome, Status

_CALLERS: Final = 32
_ONE: Final = "one caller"
_MANY: Final = f"{_CALLERS} callers"
_ON_DEMAND: Final = "one caller, forked on demand"


@dataclass(frozen=True, slots=True)
class _Extent:
    rounds: int
    round_s: float
    in_flight: int


def measure(*, is_quick: bool) -> Report:
    """Run it."""
    return asyncio.run(_measure(_Extent(2, 0.3, 100) if is_quick else _Extent(7, 2.0, 1000)))


async def _measure(extent: _Extent) -> Report:
    async with AsyncSandbox() as warm, AsyncSandbox(policy=on_demand_policy()) as unforked:
        rates = await _rates(warm, unforked, extent)
        flight = await _fly(warm, extent.in_flight)
    cpus = len(os.sched_getaffinity(0))
    shares = [many / (one * cpus) for many, one in zip(rates[_MANY], rates[_ONE], strict=True)]
    share = round(statistics.median(shares), 4)
    on_demand = [many / (one * cpus) for many, one in zip(rates[_MANY], rates[_ON_DEMAND], strict=True)]
    scaling = f"{_MANY} / ({cpus} processors x {_ONE})"
    return build_report(
        "throughput",
        cases={name: spread(values, unit="calls/s") for name, values in rates.items()},
        floors={},
        ratios={
            scaling: share,
            f"{_MANY} / ({cpus} processors x {_ON_DEMAND})": round(statistics.median(on_demand), 4),
        },
        goals=[
            at_least(scaling, share, 0.8),
            at_most(f"errors of {extent.in_flight} calls in flight", _errors(flight), 0),
        ],
        notes={"in_flight": flight},
    )


async def _rates(warm: AsyncSandbox, unforked: AsyncSandbox, extent: _Extent) -> dict[str, list[float]]:
    """Calls a second, round by round; the first round only warms up."""
    plans = {_ONE: (warm, 1), _MANY: (warm, _CALLERS), _ON_DEMAND: (unforked, 1)}
    rates: dict[str, list[float]] = {name: [] for name in plans}
    for turn in range(extent.rounds + 1):
        for name in random.sample(list(plans), len(plans)):
            rate = await _rate(*plans[name], seconds=extent.round_s)
            if turn:
                rates[name].append(rate)
    return rates


async def _rate(sandbox: AsyncSandbox, callers: int, *, seconds: float) -> float:
    """Closed loops until the time is up; calls still under way then are waited for, and both count."""
    begun = perf_counter()

    async def keep_calling() -> int:
        done = 0
        while perf_counter() - begun < seconds:
            await call(sandbox)
            done += 1
        return done

    done = await asyncio.gather(*(keep_calling() for _ in range(callers)))
    return sum(done) / (perf_counter() - begun)


async def _fly(sandbox: AsyncSandbox, count: int) -> dict[str, JsonValue]:
    """That many calls at once, of which the engine runs as many as it takes."""
    begun = perf_counter()
    outcomes = await asyncio.gather(*(sandbox.run(SOURCE, ARGUMENTS) for _ in range(count)), return_exceptions=True)
    seconds = perf_counter() - begun
    ends = Counter(_end(outcome) for outcome in outcomes)
    return {"calls": count, "seconds": round(seconds, 3), "ends": dict(ends)}


def _end(outcome: Outcome | BaseException) -> str:
    return outcome.status.value if isinstance(outcome, Outcome) else type(outcome).__name__


def _errors(flight: dict[str, JsonValue]) -> int:
    ends = flight["ends"]
    assert isinstance(ends, dict)
    return sum(count for end, count in ends.items() if end != Status.OK and isinstance(count, int))


if __name__ == "__main__":
    run_alone(measure)
