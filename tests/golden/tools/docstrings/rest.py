def f(a: int, b: str) -> None:
    """Do it.

    :param a: The a.
    :param b: The b.
    :type b: str
    """
