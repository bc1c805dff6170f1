def f(a: "Annotated[int, 'The a.']", b: str) -> None:
    """Do it.

    Args:
        b: The b.
    """
