from uuid import UUID


def f(a: UUID) -> None:
    """Do it.

    Args:
        a: The a.
    """
