def f(a: int, b: str) -> None:
    """Do it.

    Args:
        a (int): The a.
        b (str, optional): The b.
    """
