from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from pydantic import BaseModel, Field

K = TypeVar("K")
V = TypeVar("V")
Word = TypeVar("Word", bound=str)
Number = TypeVar("Number", int, float)
Pairs = list[tuple[K, V]]


class Entry(BaseModel, Generic[K, V]):
    key: K
    value: V = Field(description="What it is.")


class Box(BaseModel, Generic[V]):
    content: Optional[V] = None
    entries: list[Entry[str, V]] = []


class Boxes(Box[list[V]], Generic[V]):
    first: V


class IntBox(Box[int]):
    label: str


@dataclass
class Range(Generic[Number]):
    low: Number
    high: Number


def f(
    a: Box[int], b: Boxes[bool], c: IntBox, d: Box, e: Range[float], f: Range, g: Word, h: Pairs[str, int]
) -> Entry[str, bool]:
    """Do it.

    Args:
        a, b, c, d, e, f, g, h: One of them.

    Returns:
        An entry.
    """
