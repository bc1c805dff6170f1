def f(a: float) -> None:
    """Do it.

    Args:
        a: The a.
    """
