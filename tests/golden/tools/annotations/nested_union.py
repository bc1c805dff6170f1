from typing import Union


def f(a: Union[int, Union[str, list[int]]]) -> None:
    """Do it.

    Args:
        a: The a.
    """
