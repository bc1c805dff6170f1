from enum import StrEnum, auto


class Level(StrEnum):
    LOW = auto()
    HIGH = auto()


def f(a: Level) -> None:
    """Do it.

    Args:
        a: The a.
    """
