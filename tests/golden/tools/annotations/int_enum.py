from enum import IntEnum


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def f(a: Level) -> None:
    """Do it.

    Args:
        a: The a.
    """
