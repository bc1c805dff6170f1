def f(a: int, b: str) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
