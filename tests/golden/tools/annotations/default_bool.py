def f(a: bool = False) -> None:
    """Do it.

    Args:
        a: The a.
    """
