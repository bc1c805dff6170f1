import datetime as dt


def f(a: dt.datetime) -> None:
    """Do it.

    Args:
        a: The a.
    """
