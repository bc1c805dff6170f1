def f(a: int | str) -> None:
    """Do it.

    Args:
        a: The a.
    """
