def f(a, b=1) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
