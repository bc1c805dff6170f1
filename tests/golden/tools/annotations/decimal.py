from decimal import Decimal


def f(a: Decimal) -> None:
    """Do it.

    Args:
        a: The a.
    """
