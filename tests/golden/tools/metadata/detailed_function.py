def f(a: int) -> None:
    """Do it.

    WARNING: Hot.

    Usage: daily

    **vs:** nothing else

    Args:
        a: The a.
    """
