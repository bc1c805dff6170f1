from enum import Enum


class Level(Enum):
    LOW = "low"
    HIGH = "high"


def f(a: Level) -> None:
    """Do it.

    Args:
        a: The a.
    """
