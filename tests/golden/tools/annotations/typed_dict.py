from typing import NotRequired, TypedDict


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


def f(a: Movie) -> None:
    """Do it.

    Args:
        a: The a.
    """
