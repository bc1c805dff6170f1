from requests import Session


def f(é: int, a: list[Session]) -> None:
    """Do it.

    Args:
        é: The é.
        a: The a.
    """
