from typing import NotRequired, Required, TypedDict

Movie = TypedDict("Movie", {"name": str, "in-colour": NotRequired[bool]})
Part = TypedDict("Part", {"number": Required[int], "title": str}, total=False)


def f(a: Movie, b: Part) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
