def f(a: tuple) -> None:
    """Do it.

    Args:
        a: The a.
    """
