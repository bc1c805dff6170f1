from dataclasses import dataclass


@dataclass
class Answer:
    text: str


def f() -> list[Answer]:
    """Do it.

    Returns:
        Answers.
    """
    return []
