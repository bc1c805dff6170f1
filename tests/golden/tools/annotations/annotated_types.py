from typing import Annotated

from annotated_types import Ge, Le


def f(a: Annotated[int, Ge(0), Le(9)]) -> None:
    """Do it.

    Args:
        a: The a.
    """
