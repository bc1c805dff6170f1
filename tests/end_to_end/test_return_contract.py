"""A return value that differs from its annotation is a problem, and an error where the caller asks for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Sandbox, Status

pytestmark = pytest.mark.slow

TOOL = """
import enum
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Literal, Optional

class Colour(enum.Enum):
    RED = "red"

@dataclass
class Point:
    x: int
    inner: "Optional[Point]" = None

def tool() -> {annotation}:
    return {value}
"""
FITS = {
    "int": "1",
    "float": "1",
    "list[int]": "[1, 2]",
    "list": "[1, 'a', None]",
    "Point": "Point(1, Point(2))",
    "date": "date(2026, 1, 2)",
    "Decimal": "Decimal('1.5')",
    "Path": "Path('a')",
    "bytes": "b'a'",
    "set[int]": "{1}",
    "tuple[int, str]": "(1, 'a')",
    "Optional[int]": "None",
    "Literal['a', 1]": "1",
    "Colour": "Colour.RED",
    "dict[str, list[Point]]": "{'a': [Point(1)]}",
    "int | str": "'a'",
    "object": "[{}]",
    "None": "3",
}
UNWRITABLE = {
    "float": ("float('nan')", None),
    "int": ("10**5000", hex(10**5000)),
    "dict[str, list[float]]": ("{'a': [1.5, float('-inf')]}", {"a": [1.5, None]}),
    "list[float | int]": ("[10**5000]", [hex(10**5000)]),
}
MISFITS = {
    "int": ("'x'", "is string, not integer"),
    "list[int]": ("[1, 'x']", "[1]: is string, not integer"),
    "Point": ("{'x': 'a'}", "x: is string, not integer"),
    "tuple[int, str]": ("(1, 2)", "[1]: is integer, not string"),
    "Literal['a', 1]": ("'b'", "is not one of 'a', 1"),
    "dict[str, list[Point]]": ("{'a': [1]}", "a[0]: is integer, not object"),
    "int | str": ("[]", "fits none of its 2 forms"),
    "list[int | None]": ("[float('nan')]", "[0]: fits none of its 2 forms"),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as engine:
        yield engine


@pytest.mark.parametrize("annotation", FITS)
def test_what_fits_is_not_remarked_on(sandbox: Sandbox, annotation: str) -> None:
    source = TOOL.format(annotation=annotation, value=FITS[annotation])
    outcome = sandbox.run(source, strict_return=True)
    assert (outcome.status, outcome.warnings) == ("ok", ()), outcome.error


@pytest.mark.parametrize("annotation", UNWRITABLE)
def test_a_number_that_cannot_be_written_is_no_fault_of_the_tools(sandbox: Sandbox, annotation: str) -> None:
    value, given = UNWRITABLE[annotation]
    outcome = sandbox.run(TOOL.format(annotation=annotation, value=value), strict_return=True)
    assert (outcome.status, outcome.value) == (Status.OK, given)
    assert ["is given as" in warning for warning in outcome.warnings] == [True]


@pytest.mark.parametrize("annotation", MISFITS)
def test_what_does_not_fit_is_a_warning_and_the_value_stays(sandbox: Sandbox, annotation: str) -> None:
    value, reason = MISFITS[annotation]
    outcome = sandbox.run(TOOL.format(annotation=annotation, value=value))
    assert outcome.status == Status.OK
    assert outcome.warnings[0] == f"the value is not what the tool says it returns: {reason}"
    assert outcome.value is not None


def test_a_call_may_ask_for_an_exception(sandbox: Sandbox) -> None:
    outcome = sandbox.run(TOOL.format(annotation="int", value="'x'"), strict_return=True)
    assert (outcome.status, outcome.value) == (Status.EXCEPTION, None)
    assert outcome.error is not None
    assert outcome.error.type == "ReturnMismatch"
    assert "is string, not integer" in outcome.error.message


def test_a_tool_may_ask_for_it_and_a_call_say_otherwise(sandbox: Sandbox) -> None:
    source = '# /// script\n# [tool.sandbox]\n# strict_return = true\n# ///\ndef tool() -> int:\n    return "x"\n'
    assert sandbox.run(source).status == Status.EXCEPTION
    assert sandbox.run(source, strict_return=False).status == Status.OK


def test_a_failure_that_is_returned_stays_one(sandbox: Sandbox) -> None:
    source = TOOL.format(annotation="list[int]", value="{'success': False, 'error': 'no such city'}")
    outcome = sandbox.run(source, strict_return=True)
    assert (outcome.status, outcome.detail) == (Status.FAILED, "no such city")
