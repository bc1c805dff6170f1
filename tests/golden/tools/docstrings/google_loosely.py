def f(a: int, b: str, c: str, d: str) -> int:
    """Do it, which takes
    two lines to say.

    Args:
        - a: The a.
        b - The b: of all.
        c (str): The c,
        and more of it
        `d`: The d.

    Raises:
        ValueError if there is none

    Returns:
        The value.

    Nobody else does it.
    """
