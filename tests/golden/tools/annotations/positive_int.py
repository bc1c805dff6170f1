from pydantic import PositiveInt


def f(a: PositiveInt) -> None:
    """Do it.

    Args:
        a: The a.
    """
