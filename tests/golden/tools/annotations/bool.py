def f(a: bool) -> None:
    """Do it.

    Args:
        a: The a.
    """
