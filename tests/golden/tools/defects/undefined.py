def f(a: Frame, b: complex) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
