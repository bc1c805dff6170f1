# /// script
# requires-python = ">=3.12"
# ///
from pydantic import BaseModel

type Pair[A, B] = tuple[A, B]
type Many[
    N: (int, str)
] = list[N] | None


class Page[T](BaseModel):
    items: list[T]
    next: "Page[T] | None" = None


class Place(BaseModel):
    name: str


def f[S: str](a: list[S], b: Page[Place], c: Pair[int, str], d: Many[int], e: Many = None) -> S:
    """Do it.

    Args:
        a, b, c, d, e: One of them.

    Returns:
        The first.
    """
