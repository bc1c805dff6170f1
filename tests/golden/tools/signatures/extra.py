def f(a: int, **rest: str) -> None:
    """Do it.

    Args:
        a: The a.
        **rest: What else there is.
    """
