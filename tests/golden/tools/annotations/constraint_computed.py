from typing import Annotated

from pydantic import Field

MEBIBYTE = 1024 * 1024
MOST = 10 * MEBIBYTE + 1


def f(
    a: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)],
    b: Annotated[int, Field(le=MOST)] = 10**6,
    c: int = 1 << 4,
    d: float = 1 / 4,
    e: int = 7 // 2,
) -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
        c: The c.
        d: The d.
        e: The e.
    """
