def f() -> None:
    """Do it.
    """
