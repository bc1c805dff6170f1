from typing import NamedTuple


class Pair(NamedTuple):
    left: int
    right: int = 0


def f(a: Pair) -> None:
    """Do it.

    Args:
        a: The a.
    """
