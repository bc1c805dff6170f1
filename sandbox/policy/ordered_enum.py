"""Enums whose members have an order, such as the strengths of isolation.

A `StrEnum` compares as text, so `"machine" < "process"` would compare the alphabet. Members of an `OrderedEnum` compare
in the order of their definition.
"""

from __future__ import annotations

from enum import StrEnum


class OrderedEnum(StrEnum):
    """A `StrEnum` whose members, and their plain texts, compare in the order of their definition."""

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
