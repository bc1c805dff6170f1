def f(a: int, /, b: int, *, c: int, d: int = 4) -> int:
    """Do it.

    Args:
        a: The a.
        b: The b.
        c: The c.
        d: The d.

    Returns:
        A number.
    """
