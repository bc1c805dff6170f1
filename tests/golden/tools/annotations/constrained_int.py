from pydantic import conint


def f(a: conint(ge=1)) -> None:
    """Do it.

    Args:
        a: The a.
    """
