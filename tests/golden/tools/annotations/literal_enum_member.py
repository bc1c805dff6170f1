from enum import Enum
from typing import Literal


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def f(a: Literal[Color.RED]) -> None:
    """Do it.

    Args:
        a: The a.
    """
