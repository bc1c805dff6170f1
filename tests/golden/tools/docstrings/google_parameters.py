def f(a: int, b: str) -> None:
    """Do it.

    Parameters:
        a: The a.
        b: The b.
    """
