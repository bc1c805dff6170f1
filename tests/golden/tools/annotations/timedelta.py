from datetime import timedelta


def f(a: timedelta) -> None:
    """Do it.

    Args:
        a: The a.
    """
