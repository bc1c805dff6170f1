import os


def f(a: str = os.getcwd()) -> None:
    """Do it.

    Args:
        a: The a.
    """
