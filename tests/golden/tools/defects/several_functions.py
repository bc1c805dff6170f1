def f() -> None:
    """Do f."""


def g() -> None:
    """Do g."""
