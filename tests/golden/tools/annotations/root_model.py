from pydantic import BaseModel, Field, RootModel


class Tags(RootModel[list[str]]):
    """Words to find it by."""


class Count(RootModel):
    root: int = Field(ge=0)


class Note(BaseModel):
    tags: Tags
    count: Count = 3


def f(a: Note, b: Tags) -> Tags:
    """Do it.

    Args:
        a: The a.
        b: The b.

    Returns:
        The tags.
    """
