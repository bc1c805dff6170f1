"""Fibonacci numbers, as many as asked for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def _numbers() -> Iterator[int]:
    current, following = 0, 1
    while True:
        yield current
        current, following = following, current + following


def fibonacci(count: int = 10) -> list[int]:
    """List the first Fibonacci numbers, starting with 0.

    Args:
        count: How many numbers to list, from 0 to 1000.

    Returns:
        The numbers in their order.

    Raises:
        ValueError: If `count` is out of range.
    """
    if not 0 <= count <= 1000:
        raise ValueError(f"count is {count} and must be between 0 and 1000")
    return list(islice(_numbers(), count))
