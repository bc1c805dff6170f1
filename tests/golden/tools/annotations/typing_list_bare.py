from typing import List


def f(a: List) -> None:
    """Do it.

    Args:
        a: The a.
    """
