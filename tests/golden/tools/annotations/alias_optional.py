from typing import Optional

Maybe = Optional[str]


def f(a: Maybe) -> None:
    """Do it.

    Args:
        a: The a.
    """
