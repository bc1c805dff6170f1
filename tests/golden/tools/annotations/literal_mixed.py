from typing import Literal


def f(a: Literal["a", 1, True]) -> None:
    """Do it.

    Args:
        a: The a.
    """
