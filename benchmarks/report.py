"""The findings of a benchmark, as one closed document: spreads, ratios, and goals. This module measures nothing.

A goal that could not be measured is not met.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

Sense = Literal["at most", "at least"]

_HEADINGS: Final = ("benchmark", "goal", "measured", "bound", "met")


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Document):
    """Measurements of one case, `n` times. All other values are None if `n` is zero."""

    p50: float | None
    p95: float | None
    n: int
    unit: str = "ms"


class Goal(_Document):
    """A number, and the bound that it must keep."""

    name: str
    measured: float | None
    sense: Sense
    bound: float
    met: bool


class Machine(_Document):
    """Place and time of the measurement; `load` is the load of the last minute."""

    cpus: int
    kernel: str
    python: str
    date: str
    load: float


class Report(_Document):
    """The findings of one benchmark."""

    name: str
    cases: dict[str, Spread]
    floors: dict[str, Spread]
    ratios: dict[str, float | None]
    goals: tuple[Goal, ...]
    met: bool
    notes: dict[str, JsonValue]
    machine: Machine


def spread(values: Sequence[float], *, unit: str = "ms") -> Spread:
    """Return the median and the slow end of measurements."""
    ordered = sorted(values)
    return Spread(p50=_quantile(ordered, 0.5), p95=_quantile(ordered, 0.95), n=len(ordered), unit=unit)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value that `share` of the measurements do not exceed, interpolated between two of them."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 4)


def ratio(case: Spread, floor: Spread) -> float | None:
    """Return the case's median divided by the floor's."""
    return None if case.p50 is None or not floor.p50 else round(case.p50 / floor.p50, 4)


def at_most(name: str, measured: float | None, bound: float) -> Goal:
    """Return a goal that is met up to its bound."""
    is_met = measured is not None and measured <= bound
    return Goal(name=name, measured=measured, sense="at most", bound=bound, met=is_met)


def at_least(name: str, measured: float | None, bound: float) -> Goal:
    """Return a goal that is met from its bound on."""
    is_met = measured is not None and measured >= bound
    return Goal(name=name, measured=measured, sense="at least", bound=bound, met=is_met)


def build_report(
    name: str,
    *,
    cases: Mapping[str, Spread],
    floors: Mapping[str, Spread],
    goals: Sequence[Goal],
    ratios: Mapping[str, float | None] | None = None,
    notes: Mapping[str, JsonValue] | None = None,
) -> Report:
    """Return the report, with the ratio of every case to every floor of the same unit, and the given `ratios`."""
    against = {
        f"{case} / {floor}": ratio(cases[case], floors[floor])
        for case in cases
        for floor in floors
        if cases[case].unit == floors[floor].unit
    }
    return Report(
        name=name,
        cases=dict(cases),
        floors=dict(floors),
        ratios={**against, **(ratios or {})},
        goals=tuple(goals),
        met=bool(goals) and all(goal.met for goal in goals),
        notes=dict(notes or {}),
        machine=_describe_machine(),
    )


def merge(name: str, reports: Sequence[Report]) -> Report:
    """Merge reports of several parts, whose names all differ."""
    return Report(
        name=name,
        cases={case: found for report in reports for case, found in report.cases.items()},
        floors={floor: found for report in reports for floor, found in report.floors.items()},
        ratios={against: value for report in reports for against, value in report.ratios.items()},
        goals=tuple(goal for report in reports for goal in report.goals),
        met=bool(reports) and all(report.met for report in reports),
        notes={note: value for report in reports for note, value in report.notes.items()},
        machine=_describe_machine(),
    )


def _describe_machine() -> Machine:
    return Machine(
        cpus=os.cpu_count() or 1,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        load=round(os.getloadavg()[0], 2),
    )


def format_goals(reports: Sequence[Report]) -> str:
    """Return a table with a line for every goal."""
    rows = [
        (
            report.name,
            goal.name,
            _format(goal.measured),
            f"{goal.sense} {goal.bound:g}",
            "yes" if goal.met else "NO",
        )
        for report in reports
        for goal in report.goals
    ]
    return _format_table([_HEADINGS, *rows])


def format_measurements(reports: Sequence[Report]) -> str:
    """Return a table with a line for every case and floor."""
    rows = [
        (report.name, name, _format(found.p50), _format(found.p95), str(found.n), found.unit)
        for report in reports
        for name, found in {**report.floors, **report.cases}.items()
    ]
    return _format_table([("benchmark", "case or floor", "p50", "p95", "n", "unit"), *rows])


def _format(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows so that a terminal and Markdown show the same table. The first row is the heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|-" + "-|-".join("-" * width for width in widths) + "-|", *lines[1:]])
