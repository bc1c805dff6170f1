from pathlib import Path


def f(a: Path) -> None:
    """Do it.

    Args:
        a: The a.
    """
