def f(a: int | None = 5) -> None:
    """Do it.

    Args:
        a: The a.
    """
