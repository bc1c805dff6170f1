"""Attack: return a value within its limit that is small to send and slow to read, so that the engine stands still.

All calls of an engine are watched on one event loop. While it reads, nobody's time limit is kept and nobody's output is
taken, and what it builds from a few bytes of JSON may be many times as large.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import pytest

from sandbox import AsyncSandbox

MANY: Final = """
def tool(count: int, kind: str) -> object:
    return [{"lists": [], "dicts": {}, "numbers": 1}[kind]] * count
"""
COUNTS: Final = {"lists": 2_700_000, "dicts": 2_700_000, "numbers": 4_000_000}
_LONGEST_PAUSE_S: Final = 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_a_large_value_does_not_keep_the_engine_from_its_other_calls(kind: str) -> None:
    assert asyncio.run(_longest_pause(kind)) < _LONGEST_PAUSE_S


async def _longest_pause(kind: str) -> float:
    pauses: list[float] = []
    async with AsyncSandbox() as engine:
        await engine.run(MANY, {"count": 1, "kind": kind})
        beating = asyncio.create_task(_beat(pauses))
        await engine.run(MANY, {"count": COUNTS[kind], "kind": kind})
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating
    return max(pauses)


async def _beat(pauses: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        pauses.append(time.monotonic() - before)
