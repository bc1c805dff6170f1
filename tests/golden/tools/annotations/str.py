def f(a: str) -> None:
    """Do it.

    Args:
        a: The a.
    """
