from requests import Session


def f(a, s: Session, *rest, q: int) -> int: ...
