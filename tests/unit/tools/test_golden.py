"""Every source of the golden tables is read as its row expects: dialects, annotations, docstrings and defects."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from sandbox.tools.check import CheckReport, check_source
from sandbox.tools.problems import SourceProblem
from tests.checkout import ROOT

TABLES: Final = sorted((ROOT / "tests" / "golden").glob("*.toml"))
MIN_CASES: Final = 200
TOML_VALUES: Final = ("problems", "callables", "entry")
FUNCTION: Final = '''def f(a: {annotation}) -> None:
    """Do it.

    Args:
        a: The a.
    """
'''


def _cases() -> Iterator[Any]:
    """Yield the source and the expected results of each row."""
    for table in TABLES:
        rows = tomllib.loads(table.read_text())
        for row in rows.get("parameter", ()):
            yield pytest.param(_parameter_source(row), _parameter_results(row), id=f"{table.stem}/{row['name']}")
        for row in rows["case"]:
            yield pytest.param(row["source"], _results(row), id=f"{table.stem}/{row['name']}")


def _parameter_source(row: dict[str, Any]) -> str:
    before = f"{row['before']}\n\n" if "before" in row else ""
    default = f" = {row['default']}" if "default" in row else ""
    return before + FUNCTION.format(annotation=row["annotation"] + default)


def _parameter_results(row: dict[str, Any]) -> dict[str, Any]:
    is_required = row.get("required", "default" not in row)
    schema = {**json.loads(row["schema"]), "description": "The a."}
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"] if is_required else []}
    return {"problems": [], "schema": {"name": "f", "description": "Do it.", "parameters": parameters}}


def _results(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key in TOML_VALUES else json.loads(value) for key, value in row["expected"].items()}


def _describe(problem: SourceProblem) -> str:
    place = "-" if problem.line is None else f"{problem.line}:{'-' if problem.column is None else problem.column}"
    return f"{problem.severity} {problem.code} {place} {problem.path or '-'}"


def _read(report: CheckReport, key: str) -> Any:
    """Return the part of a report that a row expects under a key."""
    chosen = report.chosen()
    if key == "problems":
        return [_describe(each) for each in report.problems]
    if key == "callables":
        return [each.entry for each in report.callables]
    if key == "schemas":
        return {each.entry: each.schema_ for each in report.callables}
    if key in ("schema", "returns", "details"):
        assert chosen is not None
        return chosen.model_dump(by_alias=True)[key]
    return json.loads(report.model_dump_json())[key]


@pytest.mark.parametrize(("source", "expected"), [*_cases()])
def test_a_source_is_read_as_its_golden_row_expects(source: str, expected: dict[str, Any]) -> None:
    report = check_source(source.encode(), filename="source.py")
    found = {key: _read(report, key) for key in expected}
    for results in (expected, found):
        results["problems"] = sorted(results["problems"])
    assert found == expected
    assert report.ok == (not any(each.startswith("error") for each in found["problems"]))


def test_golden_names_are_unique_in_a_table() -> None:
    for table in TABLES:
        names = [row["name"] for rows in tomllib.loads(table.read_text()).values() for row in rows]
        assert len(names) == len(set(names)), table


def test_no_golden_row_is_lost() -> None:
    assert len([*_cases()]) >= MIN_CASES
