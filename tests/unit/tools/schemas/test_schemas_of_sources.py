"""Schemas of sources, all the way: exported, made strict, filled in by a model, and bound for the call."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.tools import bind, read_tool
from sandbox.tools.schemas import (
    Level,
    anthropic,
    health,
    mcp_tool,
    openai_chat,
    strict_form,
    validator,
    without_filled_nulls,
)
from sandbox.tools.tool_schema import tool_schema
from tests.unit.tools.schemas.provider_rules import anthropic_faults, mcp_faults, openai_faults

BEFORE = """
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import *
from uuid import UUID
from pydantic import BaseModel, Field

class Color(Enum):
    RED = "red"
    BLUE = "blue"

@dataclass
class Point:
    x: float
    y: float = 0.0
    label: Optional[str] = None

class Node(BaseModel):
    value: int = Field(ge=0)
    next: Optional["Node"] = None
"""
UUID_TEXT = "0f8fad5b-d9cb-469f-a165-70867728950e"

SAYABLE: list[tuple[str, Any]] = [
    ("str", "x"),
    ("int", 5),
    ("float", 2.5),
    ("bool", True),
    ("list", ["x"]),
    ("list[int]", [1]),
    ("Sequence[str]", ["x"]),
    ("tuple[int, ...]", [1, 2]),
    ("int | str", "x"),
    ('Literal["x", 1]', 1),
    ("Color", "red"),
    ("datetime", "2026-01-01T00:00:00Z"),
    ("date", "2026-01-01"),
    ("time", "10:00:00"),
    ("timedelta", "PT1H"),
    ("UUID", UUID_TEXT),
    ("Decimal", "1.5"),
    ("Path", "a/b"),
    ("bytes", "YQ=="),
    ("Annotated[int, Field(ge=1, le=9)]", 3),
    ("Point", {"x": 1.0}),
    ("list[Point]", [{"x": 1.0, "label": "p"}]),
    ("Node", {"value": 1, "next": {"value": 2}}),
]
UNSAYABLE: list[tuple[str, Any]] = [
    ("dict", {"k": 1}),
    ("dict[str, int]", {"k": 1}),
    ("list[dict]", [{}]),
    ("set[int]", [1]),
    ("tuple[int, str]", [1, "x"]),
]


def _source(annotation: str) -> str:
    parameters = f"a: {annotation}, b: Optional[{annotation}] = None, c: int = 5"
    described = "\n        ".join(f"{name}: what it is" for name in "abc")
    return f'{BEFORE}\n\ndef tool({parameters}):\n    """Does it.\n\n    Args:\n        {described}\n    """\n'


def _schema(annotation: str) -> dict[str, Any]:
    return tool_schema(_source(annotation), entry="tool")


def _filled(value: Any, members: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(members), "a": value}


@pytest.mark.parametrize(("annotation", "value"), [*SAYABLE, *UNSAYABLE])
def test_the_schema_of_a_source_is_accepted_by_every_provider(annotation: str, value: Any) -> None:
    schema = _schema(annotation)
    assert health(schema).level is Level.NON_STRICT_ONLY
    assert validator(schema["parameters"]).problems({"a": value}) == ()
    for strict in (False, True):
        assert list(openai_faults(openai_chat(schema, strict=strict).document["function"])) == []  # type: ignore[arg-type]
        assert list(anthropic_faults(anthropic(schema, strict=strict).document)) == []
    assert list(mcp_faults(mcp_tool(schema).document)) == []


@pytest.mark.parametrize(("annotation", "value"), SAYABLE)
def test_strict_arguments_of_a_model_make_the_same_call(annotation: str, value: Any) -> None:
    schema = _schema(annotation)
    strict = strict_form(schema)["parameters"]
    assert isinstance(strict, dict)
    filled = _filled(value, schema["parameters"]["properties"])
    outer = {problem.path for problem in validator(strict).problems(filled)}
    assert not {"root", "root.b", "root.c"} & outer
    tool = read_tool(_source(annotation), entry="tool")
    call = bind(tool, without_filled_nulls(filled, schema))
    assert call.problems == ()
    assert call == bind(tool, {"a": value})
    assert "c" not in call.arguments
