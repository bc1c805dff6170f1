"""Benchmarks run to the end, and their reports are right on made-up numbers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.floors import BARE_FORK, FRESH_PYTHON, MUTE_FORK, WAITING_CHILD, WALLED_FORK, WALLED_FORKS
from benchmarks.report import (
    Report,
    at_least,
    at_most,
    build_report,
    format_goals,
    format_measurements,
    merge,
    ratio,
    spread,
)
from benchmarks.throughput import WALLED_AT_ONCE
from benchmarks.turns import Case, take_turns
from sandbox.images import BaseImage
from tests.checkout import ROOT

OF_CALLS: Final = ("warm_call", "cold_call", "throughput")


@pytest.mark.parametrize(
    ("values", "p50", "p95"),
    [
        ([7.0], 7.0, 7.0),
        ([3.0, 1.0, 2.0], 2.0, 2.9),
        ([1.0, 2.0], 1.5, 1.95),
        ([float(each) for each in range(101)], 50.0, 95.0),
    ],
)
def test_a_spread_has_the_median_and_the_slow_end(values: Sequence[float], p50: float, p95: float) -> None:
    found = spread(values)
    assert (found.p50, found.p95, found.n) == (p50, p95, len(values))


def test_a_spread_of_no_samples_is_empty() -> None:
    found = spread([])
    assert (found.p50, found.p95, found.n) == (None, None, 0)


def test_a_ratio_compares_a_case_with_its_floor() -> None:
    assert ratio(spread([1.0, 6.0, 100.0]), spread([2.0])) == 3.0


@pytest.mark.parametrize(("case", "floor"), [([], [1.0]), ([1.0], []), ([1.0], [0.0])])
def test_there_is_no_ratio_without_both_sides(case: Sequence[float], floor: Sequence[float]) -> None:
    assert ratio(spread(case), spread(floor)) is None


@pytest.mark.parametrize(("measured", "is_met"), [(0.9, True), (1.0, True), (1.1, False), (None, False)])
def test_an_upper_goal_is_met_up_to_its_bound(measured: float | None, is_met: bool) -> None:
    assert at_most("it", measured, 1.0).met is is_met


@pytest.mark.parametrize(("measured", "is_met"), [(0.9, False), (1.0, True), (1.1, True), (None, False)])
def test_a_lower_goal_is_met_from_its_bound_on(measured: float | None, is_met: bool) -> None:
    assert at_least("it", measured, 1.0).met is is_met


def _report(*, measured: float | None = 0.5) -> Report:
    return build_report(
        "walking",
        cases={"to the shop": spread([3.0]), "load": spread([4.0], unit="kg")},
        floors={"as the crow flies": spread([2.0])},
        goals=[at_most("detour", 1.0, 2.0), at_least("share of pavement", measured, 0.4)],
        ratios={"own": 0.25},
    )


def test_a_report_compares_every_case_with_the_floors_of_its_unit() -> None:
    assert _report().ratios == {"to the shop / as the crow flies": 1.5, "own": 0.25}


@pytest.mark.parametrize(("measured", "is_met"), [(0.5, True), (0.3, False), (None, False)])
def test_a_report_is_met_when_all_its_goals_are(measured: float | None, is_met: bool) -> None:
    assert _report(measured=measured).met is is_met


def test_a_report_without_goals_has_met_nothing() -> None:
    assert not build_report("idle", cases={}, floors={}, goals=[]).met


def test_parts_are_merged_without_being_compared() -> None:
    other = build_report("resting", cases={"nap": spread([5.0])}, floors={}, goals=[at_most("naps", 3, 2.0)])
    merged = merge("a day", [_report(), other])
    assert [*merged.cases] == ["to the shop", "load", "nap"]
    assert merged.ratios == _report().ratios
    assert [goal.name for goal in merged.goals] == ["detour", "share of pavement", "naps"]
    assert not merged.met


def test_a_report_survives_json_unchanged() -> None:
    assert Report.model_validate_json(_report(measured=None).model_dump_json()) == _report(measured=None)


def test_the_table_of_goals_has_a_line_for_each() -> None:
    assert format_goals([_report(measured=None)]).splitlines() == [
        "| benchmark | goal              | measured     | bound        | met |",
        "|-----------|-------------------|--------------|--------------|-----|",
        "| walking   | detour            | 1            | at most 2    | yes |",
        "| walking   | share of pavement | not measured | at least 0.4 | NO  |",
    ]


def test_the_table_of_measurements_has_a_line_for_each_floor_and_case() -> None:
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in format_measurements([_report()]).splitlines()]
    assert rows[2:] == [
        ["as the crow flies", "2", "2", "1", "ms"],
        ["to the shop", "3", "3", "1", "ms"],
        ["load", "4", "4", "1", "kg"],
    ]


def _counting_case(name: str, order: list[str], *, counts: bool = True) -> Case:
    async def measured() -> float | None:
        order.append(name)
        return float(len(order)) if counts else None

    return measured


def test_cases_take_turns_and_the_first_rounds_are_thrown_away() -> None:
    order: list[str] = []
    cases = {name: _counting_case(name, order) for name in ("engine", "floor")}
    found = asyncio.run(take_turns(cases, rounds=40))
    rounds = [order[place : place + 2] for place in range(0, len(order), 2)]
    assert all(sorted(each) == ["engine", "floor"] for each in rounds)
    assert {len(values) for values in found.values()} == {40}
    assert len(rounds) > 40
    assert min(min(values) for values in found.values()) == len(order) - 80 + 1


def test_slow_rounds_are_all_counted() -> None:
    order: list[str] = []
    found = asyncio.run(take_turns({"build": _counting_case("build", order)}, rounds=3, warm_up_rounds=0))
    assert found == {"build": [1.0, 2.0, 3.0]}


def test_uncounted_samples_are_left_out() -> None:
    order: list[str] = []
    found = asyncio.run(take_turns({"late": _counting_case("late", order, counts=False)}, rounds=3))
    assert found == {"late": []}
    assert len(order) >= 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_benchmarks_of_this_host_run_to_the_end() -> None:
    names = [name for name in BENCHMARKS if name != "containers"]
    reports = {report.name: report for report in _quickly_run(names)}
    assert [*reports] == names
    for name in OF_CALLS:
        others = {MUTE_FORK, WAITING_CHILD, WALLED_FORK, WALLED_FORKS, WALLED_AT_ONCE}
        assert {*reports[name].floors} - others == {BARE_FORK, FRESH_PYTHON}
        assert all(floor.n for floor in reports[name].floors.values())


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(600, func_only=True)
def test_the_benchmarks_of_containers_run_to_the_end(docker_daemon: str, base_image: BaseImage) -> None:
    (report,) = _quickly_run(["containers"], DOCKER_HOST=docker_daemon)
    assert report.notes["image"] == base_image.tag
    crowd = [goal for goal in report.goals if "single-use calls" in goal.name]
    assert crowd
    assert [goal.name for goal in crowd if not goal.met] == []


def _quickly_run(names: Sequence[str], **environment: str) -> list[Report]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *names]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    reports = [Report.model_validate(each) for each in json.loads(done.stdout)]
    assert all(isinstance(goal.met, bool) for report in reports for goal in report.goals)
    assert all(report.goals for report in reports)
    assert all(any(found.n for found in {**report.floors, **report.cases}.values()) for report in reports)
    return reports


@pytest.mark.slow
def test_an_unknown_benchmark_is_answered_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "benchmarks", "warm_cal"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "warm_cal" in done.stderr
    assert all(name in done.stderr for name in BENCHMARKS)
