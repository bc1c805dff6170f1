from datetime import datetime


def f(a: datetime) -> None:
    """Do it.

    Args:
        a: The a.
    """
