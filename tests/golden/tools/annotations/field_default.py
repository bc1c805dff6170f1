from pydantic import Field


def f(a: int = Field(3, ge=1)) -> None:
    """Do it.

    Args:
        a: The a.
    """
