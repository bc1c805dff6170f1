def f(a: str = "x") -> None:
    """Do it.

    Args:
        a: The a.
    """
