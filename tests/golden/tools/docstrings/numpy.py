def f(a: int, b: str) -> None:
    """Do it.

    More of it.

    Parameters
    ----------
    a : int
        The a.
    b : str
        The b.
    """
