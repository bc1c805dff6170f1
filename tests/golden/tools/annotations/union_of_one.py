from typing import Union


def f(a: Union[int]) -> None:
    """Do it.

    Args:
        a: The a.
    """
