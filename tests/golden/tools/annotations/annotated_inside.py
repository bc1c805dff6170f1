from typing import Annotated

from pydantic import Field


def f(a: list[Annotated[int, Field(ge=0)]]) -> None:
    """Do it.

    Args:
        a: The a.
    """
