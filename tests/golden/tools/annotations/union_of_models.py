from pydantic import BaseModel


class Cat(BaseModel):
    meow: bool


class Dog(BaseModel):
    bark: bool


def f(a: Cat | Dog) -> None:
    """Do it.

    Args:
        a: The a.
    """
