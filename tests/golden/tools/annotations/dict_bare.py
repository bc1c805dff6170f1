def f(a: dict) -> None:
    """Do it.

    Args:
        a: The a.
    """
