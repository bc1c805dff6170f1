from dataclasses import dataclass, field
from typing import ClassVar, Final


@dataclass
class Point:
    kind: ClassVar[str] = "point"
    x: float
    length: float = field(init=False)
    MOST: Final = 5
    LEAST: Final[int] = 1


def f(a: Point) -> None:
    """Do it.

    Args:
        a: The a.
    """
