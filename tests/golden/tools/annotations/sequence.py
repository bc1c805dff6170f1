from collections.abc import Sequence


def f(a: Sequence[str]) -> None:
    """Do it.

    Args:
        a: The a.
    """
