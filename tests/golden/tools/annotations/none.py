def f(a: None) -> None:
    """Do it.

    Args:
        a: The a.
    """
