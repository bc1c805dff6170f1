from typing import Annotated

from pydantic import Field


def f(a: Annotated[float, Field(gt=0, lt=1, multiple_of=0.5)]) -> None:
    """Do it.

    Args:
        a: The a.
    """
