"""Taking turns: every case once per round, in a new random order each time, so that noise falls on all alike."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

Case = Callable[[], Awaitable[float | None]]
"""Measures once; None when this time does not count."""

_WARM_UP_ROUNDS: Final = 5


async def take_turns(
    cases: Mapping[str, Case], *, rounds: int, pause_s: float = 0.0, warm_up_rounds: int = _WARM_UP_ROUNDS
) -> dict[str, list[float]]:
    """What each case measured in `rounds` rounds after a few that are thrown away; `pause_s` comes before each time."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(-min(warm_up_rounds, rounds), rounds):
        for name in random.sample(list(cases), len(cases)):
            await asyncio.sleep(pause_s)
            value = await cases[name]()
            if turn >= 0 and value is not None:
                found[name].append(value)
    return found
