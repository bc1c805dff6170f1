from pydantic import BaseModel, Field



class City(BaseModel):
    """A city."""

    name: str = Field(..., min_length=1, description="Its name.")
    people: int = Field(0, ge=0)
    tags: list[str] = Field(default_factory=list)
    mayor: str | None = None


def f(a: City) -> None:
    """Do it.

    Args:
        a: The a.
    """
