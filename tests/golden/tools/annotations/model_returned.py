from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as checked_dataclass


class City(BaseModel):
    name: str = Field(alias="cityName")
    secret: str = Field(exclude=True)


@checked_dataclass
class Place:
    x: int


def f(a: City, b: Place, c: tuple[()]) -> City:
    """Do it.

    Args:
        a: The a.
        b: The b.
        c: The c.

    Returns:
        The city.
    """
