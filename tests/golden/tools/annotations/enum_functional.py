from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple

Color = Enum("Color", "RED GREEN")
Size = Enum("Size", {"SMALL": "s", "LARGE": "l"}, type=str)
Mode = StrEnum("Mode", ["FAST", "SLOW"])
Level = IntEnum("Level", [("LOW", 10), ("HIGH", 20)])
Point = NamedTuple("Point", [("x", int), ("y", float)])


def f(a: Color, b: Size, c: Mode, d: Level, e: Point) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
        c: The c.
        d: The d.
        e: The e.
    """
