from pydantic import BaseModel


class Point(BaseModel):
    x: float


class Route(BaseModel):
    start: Point
    stops: list[Point]


def f(a: Route) -> None:
    """Do it.

    Args:
        a: The a.
    """
