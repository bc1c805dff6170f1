def f(a: int = 5) -> None:
    """Do it.

    Args:
        a: The a.
    """
