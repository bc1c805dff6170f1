"""Budgets in tokens: the same shapes, found by trying, because only a tokenizer knows what a text is to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.outcome import Shaped
from sandbox.outputs.notices import strip_notices

_LONGEST_TOKEN: Final = 8
"""Characters of a token, at most: no more than so many for each are tried."""
_TRIES: Final = 24


def within_tokens(shape: Callable[[int], Shaped], *, budget: int, tokens: Callable[[str], int]) -> Shaped:
    """What `shape` gives for the largest budget of characters that it takes `budget` tokens to say, or a little less.

    Notices are not counted, as always. `tokens` is asked at most 24 times, about texts of bounded length.
    """
    low, high = 0, _LONGEST_TOKEN * budget
    best, tried = shape(0), shape(high)
    for _ in range(_TRIES):
        if tokens(strip_notices(tried.text)) <= budget:
            best, low = tried, min(high, max(tried.shown, low)) + 1 if tried.truncated else high + 1
        else:
            high = min(high, tried.characters) - 1
        if low > high:
            break
        tried = shape((low + high + 1) // 2)
    return best
