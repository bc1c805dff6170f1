class Thing:
    def __init__(self): ...


def f(a: Thing) -> None:
    """Do it.

    Args:
        a: The a.
    """
