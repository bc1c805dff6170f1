from datetime import time


def f(a: time) -> None:
    """Do it.

    Args:
        a: The a.
    """
