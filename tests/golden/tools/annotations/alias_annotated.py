from typing import TypeAlias

Ids: TypeAlias = list[int]


def f(a: Ids) -> None:
    """Do it.

    Args:
        a: The a.
    """
