from typing import TypeVar

T = TypeVar("T")


def f(a: T) -> None:
    """Do it.

    Args:
        a: The a.
    """
