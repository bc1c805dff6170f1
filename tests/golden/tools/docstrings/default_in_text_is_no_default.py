def f(a: int) -> None:
    """Do it.

    Args:
        a: The a. Defaults to 5.
    """
