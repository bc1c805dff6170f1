def f(a: bytes) -> None:
    """Do it.

    Args:
        a: The a.
    """
