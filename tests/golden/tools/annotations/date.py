from datetime import date


def f(a: date) -> None:
    """Do it.

    Args:
        a: The a.
    """
