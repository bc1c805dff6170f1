from datetime import datetime
from uuid import UUID


def f(a: UUID | datetime | None) -> None:
    """Do it.

    Args:
        a: The a.
    """
