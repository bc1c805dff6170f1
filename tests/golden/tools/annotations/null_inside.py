def f(a: list[int | None]) -> None:
    """Do it.

    Args:
        a: The a.
    """
