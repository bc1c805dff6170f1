from typing import FrozenSet


def f(a: FrozenSet[str]) -> None:
    """Do it.

    Args:
        a: The a.
    """
