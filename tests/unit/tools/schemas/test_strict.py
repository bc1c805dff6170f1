"""The strict form, rule by rule, and the conversion of strict arguments back to those of a call."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.errors import SchemaRefused, SpecError
from sandbox.tools.schemas import strict_form, validator, without_filled_nulls

TREE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}


def _optional(node: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": node}, "required": [], **more}


NULLABLE: list[tuple[Any, Any]] = [
    ({"type": "string"}, {"type": ["string", "null"]}),
    ({"type": "string", "default": "x"}, {"type": ["string", "null"], "default": "x"}),
    ({"type": ["integer", "string"]}, {"type": ["integer", "string", "null"]}),
    ({"type": ["null", "string"]}, {"type": ["string", "null"]}),
    ({"type": ["string", "null", "null"]}, {"type": ["string", "null"]}),
    ({"type": "null"}, {"type": "null"}),
    ({"type": "string", "enum": ["x"]}, {"type": ["string", "null"], "enum": ["x", None]}),
    ({"type": ["string", "null"], "enum": [None, "x"]}, {"type": ["string", "null"], "enum": ["x", None]}),
    (
        {"enum": ["x", 1, 1.5, True]},
        {"type": ["string", "integer", "number", "boolean", "null"], "enum": ["x", 1, 1.5, True, None]},
    ),
    ({"const": "x"}, {"type": ["string", "null"], "enum": ["x", None]}),
    ({"const": None}, {"type": "null", "const": None}),
    (
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    ),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (
        {"anyOf": [{"type": ["null", "string"]}, {"type": "integer"}]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    ),
    ({"$ref": "#/$defs/T"}, {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}),
    (
        {"$ref": "#/$defs/T", "description": "d"},
        {"description": "d", "anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]},
    ),
    ({"type": "array", "items": {"type": "string"}}, {"type": ["array", "null"], "items": {"type": "string"}}),
]


@pytest.mark.parametrize(("node", "expected"), NULLABLE)
def test_an_optional_type_is_nullable_with_one_null_at_the_end(node: Any, expected: Any) -> None:
    strict = strict_form(_optional(node, **{"$defs": {"T": {"type": "string"}}}))
    assert strict["properties"] == {"a": expected}
    assert strict["required"] == ["a"]


def test_optional_properties_become_nullable_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}, "required": ["y"]}
    strict_inner = {
        "type": "object",
        "properties": {"x": {"type": ["string", "null"]}, "y": {"type": "integer"}},
        "required": ["x", "y"],
        "additionalProperties": False,
    }
    given = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "union": {"anyOf": [{"type": "string"}, inner]},
            "referred": {"$ref": "#/$defs/I"},
        },
        "required": ["list", "union", "referred"],
        "$defs": {"I": inner},
    }
    assert strict_form(given) == {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": strict_inner},
            "union": {"anyOf": [{"type": "string"}, strict_inner]},
            "referred": {"$ref": "#/$defs/I"},
        },
        "required": ["list", "union", "referred"],
        "$defs": {"I": strict_inner},
        "additionalProperties": False,
        "strict": True,
    }


def test_a_tool_gets_its_strict_parameters_and_a_mark() -> None:
    tool = {"name": "t", "description": "d", "parameters": {"type": "object", "properties": {}, "required": []}}
    parameters = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert strict_form(tool) == {"name": "t", "description": "d", "parameters": parameters, "strict": True}
    assert strict_form(strict_form(tool)) == strict_form(tool)


def test_an_open_object_is_closed() -> None:
    assert strict_form(_optional({"type": "string"}, additionalProperties=True))["additionalProperties"] is False


NOT_REPRESENTABLE: list[tuple[Any, str]] = [
    (None, "root"),
    ([], "root"),
    ({"type": "string"}, "root"),
    (_optional({}), "root.properties.a"),
    (_optional({"type": "object"}), "root.properties.a"),
    (_optional({"type": "object", "properties": {}}), "root.properties.a"),
    (_optional({"type": "object", "additionalProperties": {"type": "string"}}), "root.properties.a"),
    (_optional({"type": "string"}, additionalProperties={"type": "string"}), "root"),
    ({"type": "object", "additionalProperties": True}, "root"),
    (_optional({"type": "array", "items": {"type": "object"}}), "root.properties.a.items"),
    (_optional({"type": "string", "maxLength": 5}), "root.properties.a"),
    (_optional({"oneOf": [{"type": "string"}]}), "root.properties.a.anyOf[0]"),
    (_optional({"$ref": "#/$defs/T"}, **{"$defs": {"T": {"type": "object"}}}), "root.$defs.T"),
    (_optional({"$ref": "https://example.org/x"}), "root.properties.a"),
    ({"name": "t", "parameters": 5}, "root"),
]


@pytest.mark.parametrize(("schema", "path"), NOT_REPRESENTABLE)
def test_an_object_outside_the_strict_form_is_refused_with_its_places(schema: Any, path: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        strict_form(schema)
    assert path in [reason.path for reason in refused.value.reasons]
    assert path in str(refused.value)
    assert isinstance(refused.value, SpecError)


def test_all_reasons_are_kept_and_the_message_stays_short() -> None:
    with pytest.raises(SchemaRefused, match="and 47 more") as refused:
        strict_form({"type": "object", "properties": {f"p{n}": {} for n in range(50)}, "additionalProperties": False})
    assert len(refused.value.reasons) == 50


def test_null_for_an_optional_parameter_means_its_default() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer", "default": 5},
            "c": {"type": ["string", "null"]},
        },
        "required": ["a", "c"],
    }
    given = {"a": "x", "b": None, "c": None}
    assert without_filled_nulls(given, schema) == {"a": "x", "c": None}
    assert without_filled_nulls(given, {"name": "t", "parameters": schema}) == {"a": "x", "c": None}
    assert given == {"a": "x", "b": None, "c": None}


def test_nulls_are_removed_in_items_unions_and_references() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}, "required": ["y"]}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "union": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "properties": {"z": {"type": "null"}}, "required": ["z"]},
                    inner,
                ]
            },
            "tree": {"$ref": "#/$defs/T"},
            "map": {"type": "object", "additionalProperties": inner},
        },
        "$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}, "name": {"type": "string"}}}},
    }
    filled: dict[str, Any] = {
        "list": [{"x": None, "y": 1}, {"x": "a", "y": 2}],
        "union": {"x": None, "y": 3},
        "tree": {"name": None, "next": {"name": "leaf", "next": None}},
        "map": {"k": {"x": None, "y": 4}, "l": None},
    }
    assert without_filled_nulls(filled, schema) == {
        "list": [{"y": 1}, {"x": "a", "y": 2}],
        "union": {"y": 3},
        "tree": {"next": {"name": "leaf"}},
        "map": {"k": {"y": 4}, "l": None},
    }
    assert without_filled_nulls({"union": {"z": None}}, schema) == {"union": {"z": None}}


def test_the_discriminator_selects_between_members_with_the_same_names() -> None:
    def member(kind: str, *required: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"kind": {"const": kind}, "v": {"type": ["integer", "null"]}},
            "required": ["kind", *required],
        }

    schema = _optional({"anyOf": [member("keeps", "v"), member("drops")]})
    assert without_filled_nulls({"a": {"kind": "keeps", "v": None}}, schema) == {"a": {"kind": "keeps", "v": None}}
    assert without_filled_nulls({"a": {"kind": "drops", "v": None}}, schema) == {"a": {"kind": "drops"}}


@pytest.mark.parametrize("given", [{"a": 5}, {"a": "x", "b": None}, {"other": None}, {"a": {"next": [None]}}])
def test_arguments_that_do_not_fit_are_left_for_the_check(given: dict[str, Any]) -> None:
    assert without_filled_nulls(given, _optional(TREE, required=["a"], **{"$defs": {"T": TREE}})) == given


def test_nested_unions_and_deep_arguments_take_bounded_time() -> None:
    member = {"type": "object", "properties": {"x": {"$ref": "#/$defs/T"}}}
    schema = _optional(
        {"$ref": "#/$defs/T"}, **{"$defs": {"T": {"anyOf": [member, {**member, "required": ["y"]}, member]}}}
    )
    deep: Any = {"x": None}
    for _ in range(400):
        deep = {"x": deep}
    assert without_filled_nulls({"a": deep}, schema).keys() == {"a"}


def test_a_strict_form_makes_the_call_it_was_made_for() -> None:
    schema = _optional({"type": "string", "enum": ["x"]}, additionalProperties=False)
    assert validator(strict_form(schema)).is_valid({"a": None})
    assert validator(schema).is_valid(without_filled_nulls({"a": None}, schema))
