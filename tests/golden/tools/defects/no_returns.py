def f() -> int:
    """Do it."""
