def f() -> int:
    """Do it.

    Args:
        None

    Returns:
        The value.
    """
