from dataclasses import dataclass, field


@dataclass(frozen=True)
class Point:
    x: float
    label: str = field(metadata={"description": "Its label."})
    y: float = 0.0


def f(a: Point) -> None:
    """Do it.

    Args:
        a: The a.
    """
