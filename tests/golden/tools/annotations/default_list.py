def f(a: list[int] = [1, 2]) -> None:
    """Do it.

    Args:
        a: The a.
    """
