def f(a: make_type(3)) -> None:
    """Do it.

    Args:
        a: The a.
    """
