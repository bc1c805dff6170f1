def f(a: set) -> None:
    """Do it.

    Args:
        a: The a.
    """
