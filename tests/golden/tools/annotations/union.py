from typing import Union


def f(a: Union[int, str]) -> None:
    """Do it.

    Args:
        a: The a.
    """
