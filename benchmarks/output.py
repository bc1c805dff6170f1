"""A tool that prints a gibibyte: the growth of the engine's memory while it takes what the policy allows.

The benchmark runs three policies: the default, which slows the tool down, counts what exceeds the limit and drops it; a
policy with almost no rate limit, which is harder for the engine; and a policy that kills a tool that prints too much.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import psutil

from benchmarks.alone import run_alone
from benchmarks.report import Report, Spread, at_least, at_most, build_report, spread
from sandbox import AsyncSandbox, Outcome, Policy, Status
from sandbox.policy import OverflowAction, load

_SOURCE: Final = """
import os

def shout(mebibytes: int) -> int:
    line = b"x" * 1023 + b"\\n"
    for _ in range(mebibytes):
        rest = line * 1024
        while rest:
            rest = rest[os.write(1, rest):]
    return mebibytes
"""
_MIB: Final = 1 << 20
_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Shouting:
    """A policy, and the expected end of a call that prints too much."""

    policy: Policy
    ends: Status


def measure(*, is_quick: bool) -> Report:
    """Measure growth under each policy."""
    return asyncio.run(_measure(mebibytes=16 if is_quick else 1024))


async def _measure(*, mebibytes: int) -> Report:
    found = {name: await _shout(each, mebibytes=mebibytes) for name, each in _list_shoutings().items()}
    cases: dict[str, Spread] = {}
    for name, (grown, seconds, _) in found.items():
        cases[f"{name}: growth"] = spread([grown], unit="MiB")
        cases[f"{name}: duration"] = spread([seconds], unit="s")
    as_asked = sum(ended for _, _, ended in found.values()) / len(found)
    return build_report(
        "output",
        cases=cases,
        floors={},
        goals=[
            at_most("MiB that the engine grows by", round(max(grown for grown, _, _ in found.values()), 2), 16),
            at_least("share of calls ended as their policy says", as_asked, 1),
        ],
        notes={"printed_mib": mebibytes},
    )


def _list_shoutings() -> dict[str, _Shouting]:
    default = load("default")
    unpaced = default.limits.model_copy(update={"output_rate": 1 << 40})
    fast = default.model_copy(update={"limits": unpaced})
    killing = fast.model_copy(update={"output": fast.output.model_copy(update={"over": OverflowAction.KILL})})
    return {
        "default policy": _Shouting(default, Status.OK),
        "at full speed": _Shouting(fast, Status.OK),
        "killed over the limit": _Shouting(killing, Status.LIMIT),
    }


async def _shout(shouting: _Shouting, *, mebibytes: int) -> tuple[float, float, bool]:
    """Return the MiB of growth, the seconds of the call, and whether the call ended as expected."""
    async with AsyncSandbox(policy=shouting.policy) as sandbox:
        await sandbox.run(_SOURCE, {"mebibytes": 1})
        begun = perf_counter()
        async with _sample_growth() as grown:
            outcome = await sandbox.run(_SOURCE, {"mebibytes": mebibytes})
        return max(grown) / _MIB, perf_counter() - begun, _is_expected(outcome, shouting)


def _is_expected(outcome: Outcome, shouting: _Shouting) -> bool:
    """Return True if the status is the policy's, and the shown output is within the policy's bounds."""
    shown = outcome.stdout.truncated and outcome.stdout.shown <= shouting.policy.output.shown
    return outcome.status is shouting.ends and shown


@asynccontextmanager
async def _sample_growth() -> AsyncIterator[list[int]]:
    """Sample the resident memory, and keep the maximum growth since the start."""
    process = psutil.Process()
    before = process.memory_info().rss
    grown = [0]

    async def look() -> None:
        while True:
            grown.append(process.memory_info().rss - before)
            await asyncio.sleep(_STEP_S)

    looking = asyncio.create_task(look())
    try:
        yield grown
    finally:
        looking.cancel()
        grown.append(process.memory_info().rss - before)


if __name__ == "__main__":
    run_alone(measure)
