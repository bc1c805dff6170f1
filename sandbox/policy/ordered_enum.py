"""Words that have an order, such as the strengths of a wall.

A `StrEnum` compares as text, so `"machine" < "process"` would silently be an answer about the alphabet. Members of a
`Rank` compare in the order they are written down.
"""

from __future__ import annotations

from enum import StrEnum


class Rank(StrEnum):
    """Members from the least to the most, compared in that order, also with their plain text."""

    @property
    def position(self) -> int:
        return list(type(self)).index(self)

    def __lt__(self, other: str) -> bool:
        return self.position < type(self)(other).position

    def __le__(self, other: str) -> bool:
        return self.position <= type(self)(other).position

    def __gt__(self, other: str) -> bool:
        return self.position > type(self)(other).position

    def __ge__(self, other: str) -> bool:
        return self.position >= type(self)(other).position
