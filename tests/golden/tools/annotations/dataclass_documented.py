from dataclasses import dataclass


@dataclass
class Point:
    """A point.

    Attributes:
        x: To the right.
    """

    x: float
    y: float
    """Upwards."""


def f(a: Point) -> None:
    """Do it.

    Args:
        a: The a.
    """
