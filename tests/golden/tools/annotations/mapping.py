from typing import Mapping


def f(a: Mapping[str, list[int]]) -> None:
    """Do it.

    Args:
        a: The a.
    """
