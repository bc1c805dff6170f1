def f(a: int = 60 * 60) -> None:
    """Do it.

    Args:
        a: The a.
    """
