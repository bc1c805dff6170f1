def f(a: object) -> None:
    """Do it.

    Args:
        a: The a.
    """
