def f(a: dict[str, int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
