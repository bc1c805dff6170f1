from collections.abc import Iterator


def f(a: int) -> Iterator[str]:
    """Count.

    Args:
        a: The a.

    Yields:
        A line for each.
    """
    yield from map(str, range(a))
