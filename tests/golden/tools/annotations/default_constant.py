LIMIT = 7


def f(a: int = LIMIT) -> None:
    """Do it.

    Args:
        a: The a.
    """
