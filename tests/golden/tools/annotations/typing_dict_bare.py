from typing import Dict


def f(a: Dict) -> None:
    """Do it.

    Args:
        a: The a.
    """
