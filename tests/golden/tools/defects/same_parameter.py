def f(a: int, a: str) -> None:
    """Do it.

    Args:
        a: The a.
    """
