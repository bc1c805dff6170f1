"""A tool that prints a gibibyte: how much the engine's own memory grows while it takes what the policy allows.

Once as the default policy has it, which slows the tool down, counts what is over the limit and drops it; once with no
rate to speak of, which is the harder case for the engine; and once with a policy that kills what prints too much.
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
    """A policy, and how a call that prints too much ends under it."""

    policy: Policy
    ends: Status


def measure(*, is_quick: bool) -> Report:
    """Run it."""
    return asyncio.run(_measure(mebibytes=96 if is_quick else 1024))


async def _measure(*, mebibytes: int) -> Report:
    found = {name: await _shout(each, mebibytes=mebibytes) for name, each in _shoutings().items()}
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


def _shoutings() -> dict[str, _Shouting]:
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
    """MiB grown by, seconds taken, and whether it ended as it should."""
    async with AsyncSandbox(policy=shouting.policy) as sandbox:
        await sandbox.run(_SOURCE, {"mebibytes": 1})
        begun = perf_counter()
        async with _growth() as grown:
            outcome = await sandbox.run(_SOURCE, {"mebibytes": mebibytes})
        return max(grown) / _MIB, perf_counter() - begun, _ended_as_asked(outcome, shouting)


def _ended_as_asked(outcome: Outcome, shouting: _Shouting) -> bool:
    """With the status the policy says, and no more shown of what was printed than it allows."""
    shown = outcome.stdout.truncated and outcome.stdout.shown <= shouting.policy.output.shown
    return outcome.status is shouting.ends and shown


@asynccontextmanager
async def _growth() -> AsyncIterator[list[int]]:
    """Bytes of resident memory beyond those at the start, looked at again and again."""
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
