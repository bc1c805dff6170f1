from typing import Annotated

from pydantic import Field


def f(a: Annotated[list[int], Field(min_length=1)]) -> None:
    """Do it.

    Args:
        a: The a.
    """
