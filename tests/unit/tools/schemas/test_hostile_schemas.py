"""Every value in place of a schema gets a document or a refusal, in bounded time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SchemaRefused
from sandbox.tools.schemas import Format, export, health, import_mcp_tool, import_schema, strict_form, validator
from tests.unit.tools.schemas.shapes import ANY_JSON, TANGLED

pytestmark = pytest.mark.slow


def _imported(schema: object) -> object:
    return import_mcp_tool({"name": "t", "inputSchema": schema})


def _exported(schema: object) -> object:
    tool = {"name": "t", "description": "", "parameters": schema}
    return [
        export(tool, to=shape, strict=strict)
        for shape in Format
        if shape is not Format.JSON
        for strict in (True, False)
    ]


def _checked(schema: object) -> object:
    return [validator(schema).problems(document) for document in ({}, {"a": [[1]]}, {"a": {"a": {"b": None}}})]


@pytest.mark.parametrize("action", [strict_form, import_schema, _imported, _exported, _checked])
@given(schema=ANY_JSON | TANGLED | st.builds(lambda node: {"type": "object", "properties": {"a": node}}, ANY_JSON))
def test_only_a_refusal_with_reasons_is_raised(action: Callable[[object], object], schema: object) -> None:
    refused: SchemaRefused | None = None
    try:
        action(schema)
    except SchemaRefused as refusal:
        refused = refusal
    assert refused is None or refused.reasons


@given(TANGLED, st.fixed_dictionaries({}, optional={"a": ANY_JSON, "b": ANY_JSON}))
def test_an_imported_schema_keeps_its_meaning(schema: dict[str, Any], document: object) -> None:
    try:
        before = validator(schema)
    except SchemaRefused:
        return
    imported = import_schema(schema).schema
    health(imported)
    if validator(imported).is_valid(document):
        assert before.is_valid(document)
