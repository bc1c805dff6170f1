from enum import Enum


class Level(str, Enum):
    LOW = "low"
    HIGH = "high"


def f(a: Level = Level.HIGH) -> None:
    """Do it.

    Args:
        a: The a.
    """
