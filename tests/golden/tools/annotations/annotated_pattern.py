from typing import Annotated

from pydantic import Field


def f(a: Annotated[str, Field(pattern="^a+$", min_length=1, max_length=9, examples=["aa"])]) -> None:
    """Do it.

    Args:
        a: The a.
    """
