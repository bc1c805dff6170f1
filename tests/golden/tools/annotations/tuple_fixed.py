def f(a: tuple[str, int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
