from typing import Literal


def f(a: Literal[1, -2]) -> None:
    """Do it.

    Args:
        a: The a.
    """
