"""Alternate between cases: each case once per round, in a new random order, so that noise affects all cases alike."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

Case = Callable[[], Awaitable[float | None]]
"""Measure once; None means that the measurement does not count."""

_WARM_UP_ROUNDS: Final = 5


async def take_turns(
    cases: Mapping[str, Case], *, rounds: int, pause_s: float = 0.0, warm_up_rounds: int = _WARM_UP_ROUNDS
) -> dict[str, list[float]]:
    """Return the measurements of each case over `rounds` rounds, after a few warm-up rounds. `pause_s` precedes each
    one."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(-min(warm_up_rounds, rounds), rounds):
        for name in random.sample(list(cases), len(cases)):
            await asyncio.sleep(pause_s)
            value = await cases[name]()
            if turn >= 0 and value is not None:
                found[name].append(value)
    return found
