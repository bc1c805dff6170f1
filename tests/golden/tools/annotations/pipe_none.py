def f(a: int | None) -> None:
    """Do it.

    Args:
        a: The a.
    """
