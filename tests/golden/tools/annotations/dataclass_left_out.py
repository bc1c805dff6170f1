from dataclasses import dataclass, field
from typing import ClassVar


@dataclass
class Point:
    kind: ClassVar[str] = "point"
    x: float
    length: float = field(init=False)


def f(a: Point) -> None:
    """Do it.

    Args:
        a: The a.
    """
