from typing import AsyncGenerator


async def f(a: int) -> AsyncGenerator[dict[str, int], None]:
    """Count.

    Args:
        a: The a.

    Yields:
        A count for each.
    """
    for each in range(a):
        yield {"count": each}
