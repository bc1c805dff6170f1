def f(a: int) -> None:
    """Do it.

    Args:
        a: One of: 1, 2 (see http://x.example/a).
    """
