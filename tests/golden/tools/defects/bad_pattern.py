from typing import Annotated

from pydantic import Field


def f(a: Annotated[str, Field(pattern="(")]) -> None:
    """Do it.

    Args:
        a: The a.
    """
