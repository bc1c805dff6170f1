def f(a: tuple[int, ...] = (1, 2)) -> None:
    """Do it.

    Args:
        a: The a.
    """
