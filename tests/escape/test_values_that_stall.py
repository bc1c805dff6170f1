"""Attack: return a value within its limit that is small to send and slow to read, so that the engine stands still.

An engine watches all calls on one event loop. While the loop reads a value, it keeps no time limit and takes no output,
and the object from a few bytes of JSON may be many times as large.

The tests measure the delay of the loop in this process's own processor time, so that other processes on the machine do
not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import pytest

from sandbox import AsyncSandbox, Outcome, Status
from tests.processor_time import slowness

TOOL: Final = """
KINDS = {
    "lists": lambda count: [[]] * count,
    "dicts": lambda count: [{}] * count,
    "numbers": lambda count: [1] * count,
    "lists in lists": lambda count: [[[[[]]]]] * (count // 6),
    "names": lambda count: {f"{number:x}": number for number in range(count - 1)},
    "long names": lambda count: {f"a name of a field, {number}": None for number in range(count)},
    "fractions": lambda count: [1.2345678e-10] * count,
    "long numbers": lambda count: [10**400] * (count // 404),
    "texts": lambda count: ["x"] * count,
    "quotes": lambda count: ['"' * 8] * count,
    "commas": lambda count: "," * count,
    "half a text": lambda count: ["NaN" + "[" * count, {}],
}

def tool(kind: str, count: int) -> object:
    return KINDS[kind](count)
"""
_MIB: Final = 1 << 20
MANY: Final = {"lists": 2_700_000, "dicts": 2_700_000, "numbers": 4_000_000, "texts": 2_000_000}
MOST: Final = {"lists": 124_000, "dicts": 124_000, "numbers": 249_000, "lists in lists": 249_000, "names": 249_000}
FULL: Final = {
    "long names": 200_000,
    "fractions": 249_000,
    "long numbers": 8 * _MIB - 10_000,
    "texts": 249_000,
    "quotes": 249_000,
    "commas": 8 * _MIB - 10_000,
    "half a text": 8 * _MIB - 10_000,
}
_LONGEST_PAUSE_S: Final = 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", MANY)
def test_a_value_of_too_many_parts_is_refused_without_delay(kind: str) -> None:
    outcome, pause, allowed = asyncio.run(_watched(kind, MANY[kind]))
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "value"), outcome.error
    assert "parts" in str(outcome.error)
    assert outcome.evidence == {"limit": 250_000, "measured": outcome.evidence["measured"], "unit": "parts"}
    assert pause < allowed


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [*MOST.items(), *FULL.items()])
def test_the_largest_values_are_returned_without_delay(kind: str, count: int) -> None:
    outcome, pause, allowed = asyncio.run(_watched(kind, count))
    assert outcome.status is Status.OK, outcome.error
    assert pause < allowed


async def _watched(kind: str, count: int) -> tuple[Outcome, float, float]:
    """The outcome, the most processor time that the engine spent meanwhile while its loop stood still, and how much it
    may be."""
    pauses: list[float] = []
    before = slowness()
    async with AsyncSandbox() as engine:
        await engine.run(TOOL, {"kind": kind, "count": 10_000})
        beating = asyncio.create_task(_beat(pauses))
        outcome = await engine.run(TOOL, {"kind": kind, "count": count})
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating
    return outcome, max(pauses), _LONGEST_PAUSE_S * max(before, slowness())


async def _beat(pauses: list[float]) -> None:
    while True:
        before = time.process_time()
        await asyncio.sleep(0.01)
        pauses.append(time.process_time() - before)
