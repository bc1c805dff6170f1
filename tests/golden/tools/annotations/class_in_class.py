from pydantic import BaseModel


class Outer(BaseModel):
    class Inner(BaseModel):
        x: int

    inner: Inner


def f(a: Outer.Inner) -> None:
    """Do it.

    Args:
        a: The a.
    """
