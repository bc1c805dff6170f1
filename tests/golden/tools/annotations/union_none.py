def f(a: int | str | None) -> None:
    """Do it.

    Args:
        a: The a.
    """
