"""Counts down and says so: a coroutine whose output can be watched while it runs."""

from __future__ import annotations

import asyncio


async def async_countdown(start: int = 3, seconds_between: float = 0.1) -> str:
    """Count down to zero, printing each number as it comes.

    Args:
        start: The number to start from, 0 or more.
        seconds_between: How long to wait after each number.

    Returns:
        A sentence that says how far it counted.

    Raises:
        ValueError: If `start` or `seconds_between` is negative.
    """
    if start < 0 or seconds_between < 0:
        raise ValueError("start and seconds_between must not be negative")
    for number in range(start, 0, -1):
        print(f"{number}...", flush=True)
        await asyncio.sleep(seconds_between)
    print("liftoff", flush=True)
    return f"counted down from {start}"
