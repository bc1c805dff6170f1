from pydantic import BaseModel


class Node(BaseModel):
    name: str
    children: list["Node"] = []


def f(a: Node) -> None:
    """Do it.

    Args:
        a: The a.
    """
