"""Budgets in tokens: the same shapes, found by trying, because only the tokenizer knows the tokens of a text.

A tokenizer is a function of a text that returns the number of its tokens, or the tokens themselves, as most `encode`
methods do. The tokenizer belongs to the program and runs in it, in threads. Some tokenizers fail on printed text, such
as on the spelling of their own control tokens: then the budget counts as one of characters, which is less.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Final

from sandbox.outcome import Shaped
from sandbox.outputs.notices import strip_notices

MAX_TOKEN_CHARACTERS: Final = 8
"""The longest token; no more characters for each token are tried."""
_TRIES: Final = 24
_MAX_FAULT_LENGTH: Final = 100

Tokenizer = Callable[[str], int | Sized]


def shape_within(
    shape: Callable[[int], Shaped], *, characters: int, tokens: int | None, tokenizer: Tokenizer | None
) -> Shaped:
    """Return the result of `shape` for the largest budget of characters within both limits; `tokens` may be None."""
    if tokens is None or tokenizer is None:
        return shape(characters)
    try:
        return within_tokens(shape, budget=tokens, tokens=lambda text: _count(tokenizer, text), most=characters)
    except Exception as error:  # the user's own code may raise anything, and the call has been
        fault = f"{type(error).__name__}: {error}"[:_MAX_FAULT_LENGTH]
        return _for_reason(shape(min(tokens, characters)), f"counted in characters, as the tokenizer failed ({fault})")


def within_tokens(
    shape: Callable[[int], Shaped], *, budget: int, tokens: Callable[[str], int], most: int | None = None
) -> Shaped:
    """Return the result of `shape` for the largest budget of at most `most` characters that is within `budget` tokens.

    Notices do not count. `tokens` is called at most 24 times, with texts of bounded length. If its answers do not grow
    with the text, the result is still within the budget, but may be shorter than possible.
    """
    high = MAX_TOKEN_CHARACTERS * budget if most is None else min(most, MAX_TOKEN_CHARACTERS * budget)
    fits, tried = 0, shape(high)
    if tokens(strip_notices(tried.text)) <= budget:
        return tried
    best, high = shape(fits), min(high, tried.characters)
    for _ in range(_TRIES - 1):
        if high - fits <= 1:
            break
        middle = (fits + high) // 2
        tried = shape(middle)
        if tokens(strip_notices(tried.text)) <= budget:
            best, fits = tried, middle
        else:
            high = middle
    return _for_reason(best, f"over the budget of {budget} tokens")


def _count(tokenizer: Tokenizer, text: str) -> int:
    said = tokenizer(text)
    return said if isinstance(said, int) else len(said)


def _for_reason(shaped: Shaped, reason: str) -> Shaped:
    """Return the same, cut for that reason and not for the number of characters which was tried."""
    parts = [part for part in (shaped.reason or "").split("; ") if part and not part.startswith("over the budget")]
    return shaped.model_copy(update={"reason": "; ".join([*parts, reason])})
