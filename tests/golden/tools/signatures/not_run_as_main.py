def f() -> None:
    """Do it."""


def _other() -> None: ...


if __name__ == "__main__":
    def g() -> None: ...
    f()
