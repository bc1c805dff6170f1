from typing import Literal


def f(a: Literal["a", "b"]) -> None:
    """Do it.

    Args:
        a: The a.
    """
