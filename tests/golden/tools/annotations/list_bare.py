def f(a: list) -> None:
    """Do it.

    Args:
        a: The a.
    """
