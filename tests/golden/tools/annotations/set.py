def f(a: set[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
