"""Describes a list of numbers in a few figures."""

from __future__ import annotations

import statistics
from typing import Literal


def statistics_summary(
    values: list[float], kind: Literal["sample", "population"] = "sample", digits: int | None = None
) -> dict[str, float | int | None]:
    """Summarise numbers: how many, their extremes, mean, median and standard deviation.

    Args:
        values: The numbers; at least one.
        kind: Whether they are a sample, or all there are.
        digits: Round to this many digits after the point; exact when left out.

    Returns:
        One figure for each name. The standard deviation of a single sample is null.

    Raises:
        ValueError: If there are no numbers.
    """
    if not values:
        raise ValueError("values is empty: give at least one number")
    figures: dict[str, float | None] = {
        "minimum": min(values),
        "maximum": max(values),
        "mean": statistics.fmean(values),
        "median": statistics.median(values),
        "deviation": _deviation(values, kind),
    }
    rounded = {
        name: figure if figure is None or digits is None else round(figure, digits) for name, figure in figures.items()
    }
    return {"count": len(values), **rounded}


def _deviation(values: list[float], kind: str) -> float | None:
    if kind == "population":
        return statistics.pstdev(values)
    return statistics.stdev(values) if len(values) > 1 else None
