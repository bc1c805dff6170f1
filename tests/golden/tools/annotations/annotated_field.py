from typing import Annotated

from pydantic import Field


def f(a: Annotated[int, Field(ge=1, le=5)]) -> None:
    """Do it.

    Args:
        a: The a.
    """
