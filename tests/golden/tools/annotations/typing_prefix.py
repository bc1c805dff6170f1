import typing as t


def f(a: t.Optional[t.List[int]]) -> None:
    """Do it.

    Args:
        a: The a.
    """
