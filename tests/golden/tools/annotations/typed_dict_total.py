from typing import Required, TypedDict


class Movie(TypedDict, total=False):
    name: Required[str]
    year: int


def f(a: Movie) -> None:
    """Do it.

    Args:
        a: The a.
    """
