def f(a: dict[str, int] = {"k": 1}) -> None:
    """Do it.

    Args:
        a: The a.
    """
