from dataclasses import dataclass

from pydantic import BaseModel


class Place(BaseModel):
    """A place.

    Attributes:
        name: Its name.
        size: How large it is.
    """

    name: str
    size: int = 1


class Town(Place):
    """A town.

    Attributes:
        size: How many live there.
        market: Whether it has a market.
    """

    market: bool = False


@dataclass
class Point:
    """A point.

    Args:
        x: To the right.
    """

    x: float


@dataclass
class Tower(Point):
    """A tower.

    Args:
        x: Where it stands.
        height: In metres.
    """

    height: float


def f(a: Town, b: Tower) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
