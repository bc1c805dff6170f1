def f(a: "any number", b: [int]) -> None:
    """Do it."""
