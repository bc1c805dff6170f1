from typing import Any


def f(a: list[Any]) -> None:
    """Do it.

    Args:
        a: The a.
    """
