"""What a benchmark found, as one closed document: spreads, ratios, and which goals are met. Nothing here measures.

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
    """One thing measured `n` times; nothing is known of it when that is zero."""

    p50: float | None
    p95: float | None
    n: int
    unit: str = "ms"


class Goal(_Document):
    """One number that is held to a bound."""

    name: str
    measured: float | None
    sense: Sense
    bound: float
    met: bool


class Machine(_Document):
    """Where and when it was measured; `load` is of the minute before the end."""

    cpus: int
    kernel: str
    python: str
    date: str
    load: float


class Report(_Document):
    """One benchmark's findings."""

    name: str
    cases: dict[str, Spread]
    floors: dict[str, Spread]
    ratios: dict[str, float | None]
    goals: tuple[Goal, ...]
    met: bool
    notes: dict[str, JsonValue]
    machine: Machine


def spread(values: Sequence[float], *, unit: str = "ms") -> Spread:
    """The middle and the slow end of what was measured."""
    ordered = sorted(values)
    return Spread(p50=_quantile(ordered, 0.5), p95=_quantile(ordered, 0.95), n=len(ordered), unit=unit)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value that `share` of the others do not exceed, between two of them where none is it."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 4)


def ratio(case: Spread, floor: Spread) -> float | None:
    """How many times the floor's p50 the case's is."""
    return None if case.p50 is None or not floor.p50 else round(case.p50 / floor.p50, 4)


def at_most(name: str, measured: float | None, bound: float) -> Goal:
    """A goal that is met up to its bound."""
    is_met = measured is not None and measured <= bound
    return Goal(name=name, measured=measured, sense="at most", bound=bound, met=is_met)


def at_least(name: str, measured: float | None, bound: float) -> Goal:
    """A goal that is met from its bound on."""
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
    """The document; every case is set against every floor of its unit, besides the `ratios` given."""
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
        machine=_machine(),
    )


def merge(name: str, reports: Sequence[Report]) -> Report:
    """Several parts' findings as one; their names for things are all different."""
    return Report(
        name=name,
        cases={case: found for report in reports for case, found in report.cases.items()},
        floors={floor: found for report in reports for floor, found in report.floors.items()},
        ratios={against: value for report in reports for against, value in report.ratios.items()},
        goals=tuple(goal for report in reports for goal in report.goals),
        met=bool(reports) and all(report.met for report in reports),
        notes={note: value for report in reports for note, value in report.notes.items()},
        machine=_machine(),
    )


def _machine() -> Machine:
    return Machine(
        cpus=os.cpu_count() or 1,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        load=round(os.getloadavg()[0], 2),
    )


def goals_table(reports: Sequence[Report]) -> str:
    """Every goal on a line."""
    rows = [
        (report.name, goal.name, _number(goal.measured), f"{goal.sense} {goal.bound:g}", "yes" if goal.met else "NO")
        for report in reports
        for goal in report.goals
    ]
    return _table([_HEADINGS, *rows])


def measurements_table(reports: Sequence[Report]) -> str:
    """Every case and floor on a line."""
    rows = [
        (report.name, name, _number(found.p50), _number(found.p95), str(found.n), found.unit)
        for report in reports
        for name, found in {**report.floors, **report.cases}.items()
    ]
    return _table([("benchmark", "case or floor", "p50", "p95", "n", "unit"), *rows])


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in the form that is read alike in a terminal and in Markdown; the first is the heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|-" + "-|-".join("-" * width for width in widths) + "-|", *lines[1:]])
