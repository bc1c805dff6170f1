from pydantic import BaseModel


class Place(BaseModel):
    name: str


class Town(Place):
    market: bool = False


def f(a: Town) -> None:
    """Do it.

    Args:
        a: The a.
    """
