"""Foreign schemas and tools of foreign servers are converted to the engine's form."""

from __future__ import annotations

import copy
import datetime
from typing import Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SchemaRefused
from sandbox.tools.schemas import (
    import_mcp_tool,
    import_schema,
    mcp_tool,
    openai_responses,
    strict_form,
    validator,
    without_filled_nulls,
)
from tests.unit.tools.schemas.provider_rules import nodes, openai_faults
from tests.unit.tools.schemas.shapes import PARAMETERS, arguments

NONE = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _of(node: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": node}, **more}


def _imported(node: Any, **more: Any) -> Any:
    return import_schema(_of(node, **more)).schema["properties"]["a"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_a_tool_that_lists_no_parameters_has_none(schema: Any) -> None:
    assert import_schema(schema) == (NONE, ())


IMPORTED: list[tuple[Any, Any]] = [
    ({"type": "string"}, {"type": "string"}),
    (
        {"type": "object", "properties": {"b": {"type": "string"}}},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": [], "additionalProperties": False},
    ),
    ({"type": "object"}, {"type": "object", "properties": {}, "required": [], "additionalProperties": True}),
    (
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": {"type": "string"}},
    ),
    (
        {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": [], "additionalProperties": True},
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    ({"anyOf": [{"const": 1}, {"const": True}, {"const": 1}]}, {"anyOf": [{"const": 1}, {"const": True}]}),
    ({"$ref": "#/$defs/S"}, {"type": "string", "description": "of S"}),
    ({"$ref": "#/$defs/S", "description": "mine"}, {"type": "string", "description": "mine"}),
    ({"$ref": "#/definitions/Chain"}, {"type": "string", "description": "of S"}),
    (
        {"type": "array", "items": {"$ref": "#/$defs/S"}},
        {"type": "array", "items": {"type": "string", "description": "of S"}},
    ),
]
DEFINITIONS: dict[str, Any] = {
    "$defs": {"S": {"type": "string", "description": "of S"}},
    "definitions": {"Chain": {"$ref": "#/$defs/S"}},
}


@pytest.mark.parametrize(("node", "expected"), IMPORTED)
def test_a_foreign_node_becomes_a_node_of_ours(node: Any, expected: Any) -> None:
    assert _imported(node, **DEFINITIONS) == expected


def test_inlined_definitions_are_removed() -> None:
    assert import_schema(_of({"$ref": "#/$defs/S"}, **DEFINITIONS)).schema.keys() == NONE.keys()


def test_recursion_stays_a_reference_and_keeps_its_definition() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}
    schema, losses = import_schema(_of({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}}))
    assert [loss.path for loss in losses] == ["root.properties.a"]
    assert "$defs" in schema
    checked = validator(schema)
    assert checked.is_valid({"a": {"next": {"next": {}}}})
    assert not checked.is_valid({"a": {"next": {"next": {"next": 5}}}})


def test_references_are_inlined_up_to_a_depth_of_ten() -> None:
    def chain(length: int) -> dict[str, Any]:
        listed = {f"d{n}": {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(length - 1)}
        return _of({"$ref": "#/$defs/d0"}, **{"$defs": {**listed, f"d{length - 1}": {"type": "string"}}})

    assert "$defs" not in import_schema(chain(10)).schema
    eleven = import_schema(chain(11)).schema
    assert "$defs" in eleven
    assert validator(eleven).is_valid({"a": []})


@pytest.mark.slow
def test_references_that_multiply_stay_references() -> None:
    listed: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for _ in range(8)]}
        for n in range(9)
    }
    schema = _of({"$ref": "#/$defs/d0"}, **{"$defs": {**listed, "d9": {"type": "string"}}})
    assert sum(1 for _ in nodes(import_schema(schema).schema)) < 30_000


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:9/x.json", "file:///etc/hostname", "other.json#/x", "//host/x", "urn:x:y", "#/$defs/none"],
)
def test_references_outside_the_document_are_refused(reference: str) -> None:
    with pytest.raises(SchemaRefused):
        import_schema(_of({"type": "array", "items": {"$ref": reference}}))


@pytest.mark.parametrize(
    "schema", [None, [], {"type": "string", "minLength": -1}, _of({"type": "text"}), _of({"pattern": "("})]
)
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaRefused):
        import_schema(schema)


class _Leg(pydantic.BaseModel):
    kind: Literal["leg"]
    miles: float = pydantic.Field(ge=0, description="how far")
    via: list[str] | None = None


class _Stop(pydantic.BaseModel):
    kind: Literal["stop"]
    until: datetime.datetime
    after: _Leg | None = None


class _Journey(pydantic.BaseModel):
    parts: list[_Leg | _Stop]
    first: _Leg
    seats: int = 1
    inner: _Journey | None = None


def test_a_schema_of_pydantic_is_imported_and_has_a_strict_form() -> None:
    tool, losses = import_mcp_tool({"name": "travel", "inputSchema": _Journey.model_json_schema()})
    assert {loss.path for loss in losses} == {"root.properties.inner.anyOf[0]"}
    assert [loss.message for loss in losses] == ["stays a reference: it is recursive"] * len(losses)
    strict, kept = openai_responses(tool, strict=True)
    assert list(openai_faults(strict)) == []
    assert strict["strict"] is True
    leg = {"kind": "leg", "miles": 1, "via": None}
    stop = {"kind": "stop", "until": "2026-01-01T00:00:00Z", "after": None}
    filled: dict[str, Any] = {"parts": [leg, stop], "first": leg, "seats": None, "inner": None}
    assert validator(strict["parameters"]).problems(filled) == ()
    assert _Journey.model_validate(without_filled_nulls(filled, tool)).seats == 1
    assert {loss.message for loss in kept} == {"`default` is only described"}


def test_a_property_may_be_called_like_a_keyword() -> None:
    properties = {"$ref": {"type": "string"}, "anyOf": {"type": "string"}, "$defs": {"type": "string"}}
    assert import_schema({"type": "object", "properties": properties}).schema["properties"] == properties


@pytest.mark.slow
@given(st.data())
def test_a_closed_schema_accepts_the_same_values_after_its_import(data: st.DataObject) -> None:
    schema = data.draw(PARAMETERS)
    document = data.draw(arguments(schema))
    before = copy.deepcopy(schema)
    imported = import_schema(schema).schema
    assert schema == before
    assert validator(imported).is_valid(document) == validator(schema).is_valid(document)
    assert import_schema(imported).schema == imported
    validator(strict_form(imported))


def test_a_servers_tool_becomes_one_of_ours_and_back() -> None:
    listed = {
        "name": "files.read",
        "title": "Read",
        "description": "Reads.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "annotations": {"readOnlyHint": True},
    }
    tool, losses = import_mcp_tool(listed)
    assert tool == {
        "name": "files_read",
        "description": "Reads.",
        "parameters": {**listed["inputSchema"], "additionalProperties": False},  # type: ignore[dict-item]
    }
    assert [str(loss) for loss in losses] == ["name: files.read is called files_read"]
    assert mcp_tool(tool).document["inputSchema"] == tool["parameters"]


@pytest.mark.parametrize(
    ("name", "ours"), [("read", "read"), ("2fa", "tool_2fa"), ("_x", "tool_x"), ("a" * 128, "a" * 64), (".", "tool_")]
)
def test_a_servers_name_becomes_one_that_every_provider_accepts(name: str, ours: str) -> None:
    tool, losses = import_mcp_tool({"name": name, "inputSchema": {"type": "object"}})
    assert tool["name"] == ours
    assert bool(losses) == (name != ours)
    assert tool["description"] == f"The {name} tool"
    assert mcp_tool(tool)


@pytest.mark.parametrize(
    "tool",
    [
        None,
        {"inputSchema": {"type": "object"}},
        {"name": "a b", "inputSchema": {"type": "object"}},
        {"name": "a" * 129, "inputSchema": {"type": "object"}},
        {"name": "a"},
        {"name": "a", "inputSchema": {"type": "object"}, "description": 5},
        {"name": "a", "inputSchema": _of({"$ref": "http://127.0.0.1:9/"})},
    ],
)
def test_an_invalid_tool_of_the_protocol_is_refused(tool: Any) -> None:
    with pytest.raises(SchemaRefused):
        import_mcp_tool(tool)
