"""Exported tools have nothing that their provider refuses, and list every loss."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SchemaRefused
from sandbox.tools.schemas import (
    Export,
    Format,
    anthropic,
    export,
    json_schema,
    mcp_tool,
    openai_chat,
    openai_responses,
    strict_form,
    validator,
)
from tests.unit.tools.schemas.provider_rules import anthropic_faults, mcp_faults, nodes, openai_faults
from tests.unit.tools.schemas.shapes import PARAMETERS

NODES: dict[str, Any] = {
    "plain": {"type": "string", "description": "text"},
    "default": {"type": "integer", "description": "how many", "default": 5},
    "bounds": {"type": "integer", "minimum": 1, "maximum": 9},
    "text": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a+$"},
    "lookaround": {"type": "string", "pattern": "^(?=a)b"},
    "path": {"type": "string", "format": "path"},
    "date": {"type": "string", "format": "date"},
    "set": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2, "maxItems": 5},
    "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    "same": {"type": "array", "prefixItems": [{"type": "number"}] * 3, "minItems": 3, "maxItems": 3},
    "choice": {"enum": ["x", 1, None]},
    "union": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"k": {"type": "integer"}}}]},
    "tree": {"$ref": "#/$defs/Tree", "description": "a tree"},
    "examples": {"type": "string", "examples": ["a"]},
    "negative": {"type": "string", "not": {"const": "x"}},
}
TREE = {"Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}}}
OPEN: dict[str, Any] = {
    "free": {"type": "object"},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "anything": {},
}


def _tool(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": sorted(properties)[:1], **more}
    if any("$ref" in node for node in properties.values()):
        parameters["$defs"] = TREE
    return {"name": "tool", "description": "Does it.", "parameters": parameters}


EACH = [_tool({name: node}) for name, node in {**NODES, **OPEN}.items()]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("to", [Format.OPENAI, Format.OPENAI_RESPONSES, Format.ANTHROPIC, Format.MCP])
def test_a_schema_begins_with_its_object_type(to: Format, strict: bool) -> None:
    document = json.dumps(export(_tool({"plain": NODES["plain"]}), to=to, strict=strict).document)
    assert '{"type": "object", "properties": {"plain": ' in document


ALL = [*EACH, _tool({}), _tool(NODES), _tool({**NODES, **OPEN}), _tool(NODES, additionalProperties=True)]
ALL_UNIONS = [*ALL, _tool(NODES, anyOf=[{"required": ["plain"]}]), _tool(NODES, allOf=[{"required": ["date"]}])]


@pytest.mark.parametrize("tool", ALL_UNIONS)
@pytest.mark.parametrize("strict", [False, True])
def test_openai_accepts_its_exported_tools(tool: dict[str, Any], strict: bool) -> None:
    chat, responses = openai_chat(tool, strict=strict), openai_responses(tool, strict=strict)
    assert chat.document.keys() == {"type", "function"}
    assert isinstance(chat.document["function"], dict)
    assert responses.document == {"type": "function", "strict": False, **chat.document["function"]}
    assert list(openai_faults(chat.document["function"])) == []
    validator(chat.document["function"]["parameters"])
    assert chat.losses == responses.losses


@pytest.mark.parametrize("tool", ALL_UNIONS)
@pytest.mark.parametrize("strict", [False, True])
def test_anthropic_accepts_its_exported_tools(tool: dict[str, Any], strict: bool) -> None:
    document = anthropic(tool, strict=strict).document
    assert list(anthropic_faults(document)) == []
    validator(document["input_schema"])


@pytest.mark.parametrize("tool", ALL_UNIONS)
def test_the_protocol_accepts_its_exported_tools(tool: dict[str, Any]) -> None:
    document, losses = mcp_tool(tool)
    assert list(mcp_faults(document)) == []
    assert (document["inputSchema"], losses) == (tool["parameters"], ())


@pytest.mark.slow
@given(PARAMETERS, st.booleans())
def test_any_schema_is_exported_in_a_form_its_provider_accepts(parameters: dict[str, Any], strict: bool) -> None:
    tool = {"name": "tool", "description": "", "parameters": parameters}
    function = openai_chat(tool, strict=strict).document["function"]
    assert isinstance(function, dict)
    assert list(openai_faults(function)) == []
    assert function.get("strict", False) is strict
    assert list(anthropic_faults(anthropic(tool, strict=strict).document)) == []


@pytest.mark.slow
@given(PARAMETERS)
def test_a_lossless_export_accepts_what_the_strict_form_accepts(parameters: dict[str, Any]) -> None:
    exported, losses = openai_chat({"name": "tool", "description": "", "parameters": parameters}, strict=True)
    function = exported["function"]
    assert isinstance(function, dict)
    assert losses == ()
    ours, theirs = validator(strict_form(parameters)), validator(function["parameters"])
    for document in ({}, dict.fromkeys(parameters["properties"]), dict.fromkeys(parameters["properties"], "x")):
        assert ours.is_valid(document) == theirs.is_valid(document)


def _described(found: Export, name: str) -> str:
    text = json.dumps(found.document)
    function: Any = found.document["function"]
    assert name in text
    return str(function["parameters"]["properties"][name]["description"])


def test_constraints_outside_strict_mode_go_into_the_description() -> None:
    found = openai_chat(_tool({"default": NODES["default"], "text": NODES["text"]}), strict=True)
    assert _described(found, "default") == "how many (default: 5)"
    assert _described(found, "text") == "(maxLength: 8, minLength: 1)"
    assert [str(loss) for loss in found.losses] == [
        "root.properties.default: `default` is only described",
        "root.properties.text: `maxLength` is only described",
        "root.properties.text: `minLength` is only described",
    ]


@pytest.mark.parametrize(
    "name", [name for name in NODES if name not in ("plain", "date", "bounds", "same", "choice", "tree")]
)
def test_every_loss_for_openai_is_listed_with_its_place(name: str) -> None:
    losses = openai_chat(_tool({name: NODES[name]}), strict=True).losses
    assert losses
    assert all(loss.path.startswith(f"root.properties.{name}") for loss in losses)


@pytest.mark.parametrize("name", OPEN)
def test_a_tool_outside_strict_mode_is_exported_without_it(name: str) -> None:
    found = openai_responses(_tool({name: OPEN[name]}), strict=True)
    assert found.document["strict"] is False
    assert any("not strict" in loss.message and loss.path == f"root.properties.{name}" for loss in found.losses)
    unbound = anthropic(_tool({name: OPEN[name]}), strict=True)
    assert "strict" not in unbound.document
    assert any("not strict" in loss.message for loss in unbound.losses)


def _nested(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels - 1):
        node = {"type": "object", "properties": {"a": node}, "required": ["a"]}
    return _tool({"a": node})


def _many(count: int) -> dict[str, Any]:
    return _tool({f"p{number}": {"type": "string"} for number in range(count)})


def _values(count: int, length: int = 4) -> dict[str, Any]:
    return _tool({"a": {"type": "string", "enum": [str(number).zfill(length) for number in range(count)]}})


def _wide_enum() -> dict[str, Any]:
    return _tool({f"p{n}": {"type": "string", "enum": ["x" * 4000]} for n in range(31)})


@pytest.mark.slow
@pytest.mark.parametrize("tool", [_nested(10), _many(5000), _values(1000), _values(251, 59), _values(250, 61)])
def test_the_limits_of_strict_mode_are_reached(tool: dict[str, Any]) -> None:
    assert openai_responses(tool, strict=True).document["strict"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (_nested(11), "11 levels"),
        (_many(5001), "5001 properties"),
        (_values(1001), "1001 enum values"),
        (_values(251, 60), "15060 characters"),
        (_wide_enum(), "characters"),
    ],
)
def test_beyond_the_limits_strict_mode_is_disabled(tool: dict[str, Any], said: str) -> None:
    document, losses = openai_responses(tool, strict=True)
    assert document["strict"] is False
    assert any(said in loss.message for loss in losses)


def test_a_union_at_the_top_level_goes_into_the_description() -> None:
    tool = _tool({"a": {"type": "string"}}, anyOf=[{"required": ["a"]}])
    parameters = openai_responses(tool).document["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["description"] == '(anyOf: [{"required": ["a"]}])'
    assert "anyOf" not in parameters


def test_a_pair_of_two_kinds_becomes_an_array_of_either() -> None:
    found = openai_chat(_tool({"pair": NODES["pair"], "same": NODES["same"]}))
    listed = list(nodes(found.document["function"]["parameters"]))  # type: ignore[index,call-overload]
    assert {"anyOf": [{"type": "integer"}, {"type": "string"}]} in listed
    assert [loss.path for loss in found.losses] == ["root.properties.pair"]


def test_anthropic_leaves_optional_parameters_optional() -> None:
    tool = _tool({"a": {"type": "string"}, "b": {"type": "integer", "default": 5, "minimum": 1}})
    document, losses = anthropic(tool, strict=True)
    assert document["strict"] is True
    assert document["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "default": 5, "description": "(minimum: 1)"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert [str(loss) for loss in losses] == ["root.properties.b: `minimum` is only described"]


def test_anthropic_without_strict_mode_loses_nothing() -> None:
    tool = _tool(NODES)
    assert anthropic(tool) == ({"name": "tool", "description": "Does it.", "input_schema": tool["parameters"]}, ())


def test_recursion_disables_anthropics_strict_mode() -> None:
    document, losses = anthropic(_tool({"tree": NODES["tree"]}), strict=True)
    assert "strict" not in document
    assert "not strict: the schema is recursive" in [loss.message for loss in losses]


OUTPUTS: list[tuple[Any, Any]] = [
    ({"type": "object", "properties": {}}, {"count": 1}),
    ({"type": "string"}, {"result": "x"}),
    ({"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}, {"result": [1]}),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}, {"result": [[1], 2]}),
]


@pytest.mark.parametrize(("output", "result"), OUTPUTS)
def test_a_result_is_announced_as_an_object(output: Any, result: Any) -> None:
    document, _ = mcp_tool(_tool({}), output=output)
    assert list(mcp_faults(document)) == []
    assert validator(document["outputSchema"]).problems(result) == ()
    assert not validator(document["outputSchema"]).is_valid({"result": {"not": "it"}}) or output["type"] == "object"


def test_hints_are_announced_and_unknown_ones_are_listed() -> None:
    document, losses = mcp_tool(_tool({}), annotations={"readOnlyHint": True, "title": "T", "safe": True}, title="Tool")
    assert document["annotations"] == {"readOnlyHint": True, "title": "T"}
    assert document["title"] == "Tool"
    assert [loss.path for loss in losses] == ["annotations.safe"]
    with pytest.raises(SchemaRefused, match="destructiveHint"):
        mcp_tool(_tool({}), annotations={"destructiveHint": "no"})


def test_a_plain_schema_names_its_dialect_and_its_tool() -> None:
    document, losses = json_schema(_tool({"a": {"type": "string"}}))
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (document["title"], document["description"], losses) == ("tool", "Does it.", ())
    assert json_schema(_tool({}), strict=True).document["additionalProperties"] is False
    with pytest.raises(SchemaRefused, match="no strict form"):
        json_schema(_tool(OPEN), strict=True)


@pytest.mark.parametrize("shape", Format)
def test_every_format_is_found_by_its_name(shape: Format) -> None:
    assert "tool" in json.dumps(export(_tool({"plain": NODES["plain"]}), to=shape, strict=True).document)


NO_TOOLS: list[Any] = [
    None,
    {},
    {"name": "1st", "description": "", "parameters": {"type": "object"}},
    {"name": "a b", "description": "", "parameters": {"type": "object"}},
    {"name": "a" * 65, "description": "", "parameters": {"type": "object"}},
    {"name": "a\n", "description": "", "parameters": {"type": "object"}},
    {"name": "a", "description": 5, "parameters": {"type": "object"}},
    {"name": "a", "description": "", "parameters": {"type": "string"}},
    {"name": "a", "description": "", "parameters": {"type": "object", "properties": {"a": {"type": "text"}}}},
    {
        "name": "a",
        "description": "",
        "parameters": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/"}}},
    },
]


@pytest.mark.parametrize("shape", Format)
@pytest.mark.parametrize("tool", NO_TOOLS)
def test_an_invalid_tool_is_refused_in_every_format(tool: Any, shape: Format) -> None:
    with pytest.raises(SchemaRefused):
        export(tool, to=shape)


@pytest.mark.parametrize(
    "node", [{"type": "object", "enum": [{}]}, {"allOf": [{"$ref": "#/$defs/S"}]}, {"type": "array", "enum": [[1]]}]
)
def test_a_tool_outside_anthropics_strict_mode_is_exported_without_it(node: Any) -> None:
    tool = _tool({"a": node})
    tool["parameters"]["$defs"] = {"S": {"type": "string"}}
    document, losses = anthropic(tool, strict=True)
    assert "strict" not in document
    assert "root.properties.a" in [loss.path for loss in losses if loss.message.startswith("not strict")]
