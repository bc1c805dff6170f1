from typing import Literal

Mode = Literal["r", "w"]


def f(a: Mode) -> None:
    """Do it.

    Args:
        a: The a.
    """
