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
    """What `shape` gives for the largest budget of characters that `tokens` counts as no more than `budget`.

    Notices are not counted, as always. `tokens` is asked at most 24 times, about texts of bounded length; where its
    answers do not grow with the text, what is given is within the budget still, but may be less than could be.
    """
    fits, high = 0, _LONGEST_TOKEN * budget
    best, tried = shape(fits), shape(high)
    if tokens(strip_notices(tried.text)) <= budget:
        return tried
    high = min(high, tried.characters)
    for _ in range(_TRIES - 1):
        if high - fits <= 1:
            break
        middle = (fits + high) // 2
        tried = shape(middle)
        if tokens(strip_notices(tried.text)) <= budget:
            best, fits = tried, middle
        else:
            high = middle
    return best
