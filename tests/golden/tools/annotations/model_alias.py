from pydantic import BaseModel, Field


class City(BaseModel):
    name: str = Field(alias="cityName")


def f(a: City) -> None:
    """Do it.

    Args:
        a: The a.
    """
