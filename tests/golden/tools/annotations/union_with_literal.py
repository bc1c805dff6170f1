from typing import Literal


def f(a: int | Literal['all']) -> None:
    """Do it.

    Args:
        a: The a.
    """
