from enum import Enum, auto


class Level(Enum):
    LOW = auto()
    HIGH = auto()


def f(a: Level) -> None:
    """Do it.

    Args:
        a: The a.
    """
