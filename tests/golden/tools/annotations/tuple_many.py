def f(a: tuple[int, ...]) -> None:
    """Do it.

    Args:
        a: The a.
    """
