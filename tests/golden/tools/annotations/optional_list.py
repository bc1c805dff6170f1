def f(a: list[str] | None) -> None:
    """Do it.

    Args:
        a: The a.
    """
