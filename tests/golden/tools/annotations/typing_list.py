from typing import List


def f(a: List[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
