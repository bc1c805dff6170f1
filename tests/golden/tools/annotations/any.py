from typing import Any


def f(a: Any) -> None:
    """Do it.

    Args:
        a: The a.
    """
