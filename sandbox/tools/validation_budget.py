"""What comparing values with types may cost, counted while it is done.

*Bounded errors.* Pydantic collects every error there is, which for a list of a million wrong items is gigabytes. Each
refusal therefore goes through the `Attempt` of its validation. After a hundred of them an attempt lets everything pass,
which is sound because it has failed a hundred times already: a refusal inside one attempt is always final, and a union,
whose members may be refused while the union is not, makes an attempt of its own for each member it tries.

*Bounded work.* Unions inside unions multiply, and so does text that is parsed again for each member. All attempts of
one validation share a `Work`, which ends it with `TooMuchWork` instead of minutes later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic_core import PydanticCustomError

MAX_REFUSALS: Final = 100
MAX_WORK: Final = 3_000_000
CHARACTERS_OF_A_STEP: Final = 64


class TooMuchWork(Exception):
    """The arguments and the declared types together take too long to compare."""


@dataclass(slots=True)
class Work:
    """What one validation may still do."""

    left: int = MAX_WORK

    def spend(self, steps: int) -> None:
        """Count steps that multiply."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


@dataclass(slots=True)
class Attempt:
    """One try at validating: whether it may convert, and how many more refusals it counts."""

    work: Work
    converts: bool = True
    refusals_left: int = MAX_REFUSALS

    @property
    def is_lost(self) -> bool:
        """Whether it has been refused so often that nothing more needs looking at."""
        return self.refusals_left <= 0

    def refuse(self, expected: str) -> object:
        """Raise, unless this attempt has been refused often enough; then anything may stand in for the value."""
        self.refusals_left -= 1
        if self.refusals_left >= 0:
            raise PydanticCustomError("wrong", "must be {expected}", {"expected": expected})
        return None
