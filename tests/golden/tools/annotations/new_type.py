from typing import NewType

Id = NewType("Id", int)


def f(a: Id) -> None:
    """Do it.

    Args:
        a: The a.
    """
