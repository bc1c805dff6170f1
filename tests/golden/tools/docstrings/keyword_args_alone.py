def f(*, a: int) -> None:
    """Do it.

    Keyword Args:
        a: The a.
    """
