from typing import List as L


def f(a: L[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
