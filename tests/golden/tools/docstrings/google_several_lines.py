def f(a: int, b: str) -> None:
    """Do it.

    Args:
        a: The a.
            It goes on.
            - and on
        b: The b.
    """
