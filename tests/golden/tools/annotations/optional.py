from typing import Optional


def f(a: Optional[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
