from typing import TypedDict

Movie = TypedDict("Movie", {"in": str, "year": int})


def f(a: Movie) -> None:
    """Do it.

    Args:
        a: The a.
    """
