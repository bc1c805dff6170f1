def f(a: list[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
