def f(a: int) -> None:
    """Do it.

    It takes a while,
    and then it is done.

    Second paragraph.

    Args:
        a: The a.
    """
