from typing import Union

Tree = Union[int, list["Tree"]]


def f(a: Tree) -> None:
    """Do it.

    Args:
        a: The a.
    """
