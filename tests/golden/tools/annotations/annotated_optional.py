from typing import Annotated

from pydantic import Field


def f(a: Annotated[int | None, Field(ge=0)]) -> None:
    """Do it.

    Args:
        a: The a.
    """
