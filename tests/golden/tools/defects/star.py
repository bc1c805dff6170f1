def f(*items: str) -> None:
    """Do it.

    Args:
        *items: Some.
    """
