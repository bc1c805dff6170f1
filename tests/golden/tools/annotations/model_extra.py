from pydantic import BaseModel, ConfigDict


class City(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


def f(a: City) -> None:
    """Do it.

    Args:
        a: The a.
    """
