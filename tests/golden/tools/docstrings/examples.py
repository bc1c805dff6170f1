def f(a: int) -> None:
    """Do it.

    Args:
        a: The a.

    Examples:
        >>> f(1)
        2
    """
