def f(a: None | str) -> None:
    """Do it.

    Args:
        a: The a.
    """
