"""Budgets, in counts, for comparing untrusted values and patterns with types.

*Refusals.* Pydantic collects every error, which for a list of a million wrong items is gigabytes. So each refusal goes
through the `Attempt` of its validation. After a hundred refusals an attempt lets everything pass, which is sound
because it has failed already: a refusal inside an attempt is final, and a union, whose members may be refused while the
union is not, makes an attempt of its own for each member.

*Work.* Unions inside unions multiply, and so does text that is parsed again for each member. All attempts of one
validation share a `WorkBudget`, which ends the validation with `TooMuchWork`.

*Patterns.* A linear-time matcher compiles a pattern into a machine first, which takes longer the more often its parts
repeat: `\\w{1,64}` is 64 times a class of a thousand letters and takes 20 ms. `pattern_cost` estimates the number of
states, and all patterns of one source have one budget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pydantic_core import PydanticCustomError

MAX_REFUSALS: Final = 100
MAX_WORK: Final = 3_000_000
CHARACTERS_OF_A_STEP: Final = 64


class TooMuchWork(Exception):
    """The arguments and the declared types together take too long to compare."""


@dataclass(slots=True)
class WorkBudget:
    """The steps that one validation may still take."""

    left: int = MAX_WORK

    def spend(self, steps: int) -> None:
        """Count steps that multiply."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


@dataclass(slots=True)
class Attempt:
    """An attempt to validate: whether it may convert, and how many more refusals it counts."""

    work: WorkBudget
    converts: bool = True
    refusals_left: int = MAX_REFUSALS

    @property
    def is_lost(self) -> bool:
        """Whether it has been refused so often that nothing more needs looking at."""
        return self.refusals_left <= 0

    def refuse(self, expected: str) -> object:
        """Raise, unless this attempt has been refused often enough; then any value may stand in for the refused one."""
        self.refusals_left -= 1
        if self.refusals_left >= 0:
            raise PydanticCustomError("wrong", "must be {expected}", {"expected": expected})
        return None


MAX_PATTERN_COST: Final = 1_000_000
"""The cost of all patterns of one source; about half a second."""
_OF_ONE: Final = 100
_AT_MOST: Final = 250_000
_UNICODE: Final = 1_000
_PIECE = re.compile(r"\\[wWdDsSpP]|\\.|\[\^?\]?(?:[^\\\]]|\\.)*\]|\{(\d{1,6})(?:,(\d{0,6}))?\}|.", re.DOTALL)


def pattern_cost(pattern: str) -> int:
    """Return about how many states a regular expression has; classes such as `\\w` have a thousand."""
    sums, last = [0], 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if text == "(":
            sums.append(0)
            last = 0
        elif text == ")":
            last = sums.pop() if len(sums) > 1 else 0
            sums[-1] += last
        elif piece[1] is not None:
            repeated = last * max(int(piece[1]), int(piece[2] or 0), 1)
            sums[-1] += repeated - last
            last = repeated
        else:
            last = _UNICODE if _is_of_unicode(text) else 1
            sums[-1] += last
    return _OF_ONE + min(sum(sums), _AT_MOST)


def _is_of_unicode(piece: str) -> bool:
    return piece.startswith("[^") or any(
        escape in piece for escape in ("\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\p")
    )
