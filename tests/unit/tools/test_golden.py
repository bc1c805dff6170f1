"""Sources of every dialect, annotation, docstring and defect, each with what is to be read from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.tools.check import CheckReport, check_source
from sandbox.tools.problems import SourceProblem
from tests.checkout import ROOT

GOLDEN: Final = ROOT / "tests" / "golden" / "tools"
SOURCES: Final = sorted(GOLDEN.rglob("*.py"))


def _name(file: Path) -> str:
    return str(file.relative_to(GOLDEN).with_suffix(""))


def _told(problem: SourceProblem) -> str:
    place = "-" if problem.line is None else f"{problem.line}:{'-' if problem.column is None else problem.column}"
    return f"{problem.severity} {problem.code} {place} {problem.path or '-'}"


def _found(report: CheckReport, asked: str) -> Any:
    """What a report says under a key of a golden file."""
    chosen = report.chosen()
    if asked == "problems":
        return [_told(each) for each in report.problems]
    if asked == "callables":
        return [each.entry for each in report.callables]
    if asked == "schemas":
        return {each.entry: each.schema_ for each in report.callables}
    if asked in ("schema", "returns", "details"):
        assert chosen is not None
        return chosen.model_dump(by_alias=True)[asked]
    return json.loads(report.model_dump_json())[asked]


@pytest.mark.parametrize("file", SOURCES, ids=_name)
def test_a_source_is_read_as_its_golden_file_says(file: Path) -> None:
    expected = json.loads(file.with_suffix(".json").read_text())
    report = check_source(file.read_bytes(), filename="source.py")
    found = {asked: _found(report, asked) for asked in expected}
    for both in (expected, found):
        both["problems"] = sorted(both["problems"])
    assert found == expected
    assert report.ok == (not any(each.startswith("error") for each in found["problems"]))


def test_there_are_enough_of_them() -> None:
    assert len(SOURCES) >= 120
