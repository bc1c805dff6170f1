from typing import Literal


def f(a: Literal["a", None]) -> None:
    """Do it.

    Args:
        a: The a.
    """
