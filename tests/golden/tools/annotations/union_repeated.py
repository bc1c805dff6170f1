def f(a: int | int) -> None:
    """Do it.

    Args:
        a: The a.
    """
