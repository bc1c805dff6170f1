import typing


def f(a: typing.Iterable[float]) -> None:
    """Do it.

    Args:
        a: The a.
    """
