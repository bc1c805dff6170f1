"""Every rule of a schema's health: the faults, the obstacles to strict mode, and the harmless cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given

from sandbox.tools.schemas import Health, Level, SchemaFinding, health
from tests.unit.tools.schemas.shapes import ANY_JSON

CLOSED: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _of(schema: Any, **more: Any) -> dict[str, Any]:
    """Return a sound and closed schema with one required property of this schema."""
    return {**CLOSED, "properties": {"a": schema}, "required": ["a"], **more}


def _closed(**properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties, "required": [*properties]}


INVALID: list[tuple[Any, str]] = [
    ({"type": "array", "items": {"type": "string"}}, "root"),
    ({"properties": {}}, "root"),
    ({**CLOSED, "type": ["object", "null"]}, "root"),
    ({**CLOSED, "properties": []}, "root"),
    ({**CLOSED, "required": "a"}, "root"),
    ({**CLOSED, "required": ["a"]}, "root"),
    ({**CLOSED, "required": [5]}, "root"),
    (_of({}), "root.properties.a"),
    (_of({"description": "anything"}), "root.properties.a"),
    (_of(True), "root.properties.a"),
    (_of("string"), "root.properties.a"),
    (_of(None), "root.properties.a"),
    (_of({"type": "str"}), "root.properties.a"),
    (_of({"type": 5}), "root.properties.a"),
    (_of({"type": []}), "root.properties.a"),
    (_of({"type": ["string", "text"]}), "root.properties.a"),
    (_of({"type": ["string", {}]}), "root.properties.a"),
    (_of({"type": "array"}), "root.properties.a"),
    (_of({"type": ["array", "null"]}), "root.properties.a"),
    (_of({"type": "array", "minItems": 0}), "root.properties.a"),
    (_of({"type": "array", "items": "string"}), "root.properties.a.items"),
    (_of({"type": "array", "items": {}}), "root.properties.a.items"),
    (_of({"type": "array", "items": {"type": "array", "items": {"type": "x"}}}), "root.properties.a.items.items"),
    (_of({"anyOf": [{"type": "string"}, 5]}), "root.properties.a.anyOf[1]"),
    (_of({"anyOf": {"type": "string"}}), "root.properties.a"),
    (_of({"anyOf": []}), "root.properties.a"),
    (_of({"oneOf": [{"type": "string"}, {}]}), "root.properties.a.oneOf[1]"),
    (_of({"allOf": [{"type": "nothing"}]}), "root.properties.a.allOf[0]"),
    (_of({"enum": "a"}), "root.properties.a"),
    (_of(CLOSED), "root.properties.a"),
    (_of({"type": "object", "additionalProperties": False}), "root.properties.a"),
    (_of({"$ref": "#/$defs/E"}, **{"$defs": {"E": CLOSED}}), "root.properties.a"),
    (_of({"anyOf": [CLOSED, CLOSED]}), "root.properties.a"),
    (_of({"$ref": "#/$defs/X"}), "root.properties.a"),
    (_of({"$ref": "http://127.0.0.1/x"}), "root.properties.a"),
    (_of({"$ref": "file:///etc/hostname"}), "root.properties.a"),
    (_of({"$ref": 5}), "root.properties.a"),
    (_of({"$ref": "#/properties/a"}), "root.properties.a"),
    (_of({"type": "string"}, **{"$defs": {"X": {}}}), "root.$defs.X"),
    (_of({"type": "string"}, **{"$defs": []}), "root"),
    (_of({"type": "object", "additionalProperties": {"type": "x"}}), "root.properties.a.additionalProperties"),
]

NOT_STRICT: list[tuple[Any, str]] = [
    ({"type": "object", "properties": {}}, "root"),
    ({**CLOSED, "additionalProperties": True}, "root"),
    (_of({"type": "object", "properties": {"b": {"type": "string"}}}), "root.properties.a"),
    (_of({"type": "object"}), "root.properties.a"),
    (_of({"type": "object", "additionalProperties": {"type": "integer"}}), "root.properties.a"),
    (_of({"type": ["object", "null"], "properties": {"b": {"type": "string"}}}), "root.properties.a"),
    (_of({"anyOf": [{"type": "string"}, {"type": "object"}]}), "root.properties.a.anyOf[1]"),
    (_of({"type": "array", "items": {"type": "object"}}), "root.properties.a.items"),
    (_of({"properties": {"b": {"type": "string"}}}), "root.properties.a"),
    (_of({"type": "string"}, **{"$defs": {"X": {"type": "object"}}}), "root.$defs.X"),
    (_of({"type": "string"}, definitions={"X": {"type": "object"}}), "root.definitions.X"),
    (_of({"type": "string"}, anyOf=[_closed(a={"type": "string"})]), "root"),
    (_of({"type": "string", "minLength": 1}), "root.properties.a"),
    (_of({"oneOf": [{"type": "string"}]}), "root.properties.a"),
    (_of({"allOf": [{"type": "string"}]}), "root.properties.a"),
    (_of({"type": "string", "not": {"const": "x"}}), "root.properties.a"),
    (_of({"type": "array", "items": {"type": "string"}, "uniqueItems": True}), "root.properties.a"),
    (_of({"type": "array", "prefixItems": [{"type": "string"}], "items": False}), "root.properties.a"),
    (_of({"type": "string"}, **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}), "root"),
]

STRICT: list[Any] = [
    CLOSED,
    {"type": "object", "additionalProperties": False},
    _of({"type": "string"}),
    _of({"type": ["string", "null"]}),
    {**_of({"type": "string"}), "required": []},
    {"type": "object", "properties": {"a": {"type": "integer", "default": 5}}, "additionalProperties": False},
    _of({"type": "array", "items": {"type": "string"}}),
    _of({"type": "array", "items": {"type": "string"}, "minItems": 0, "maxItems": 3}),
    _of({"anyOf": [{"type": "string"}, _closed(b={"type": "integer"})]}),
    _of({"enum": ["x", 1]}),
    _of({"const": "x"}),
    _of({"type": "integer", "minimum": 1, "multipleOf": 2}),
    _of({"type": "string", "pattern": "^a+$", "format": "date"}),
    _of({"$ref": "#/$defs/T"}, **{"$defs": {"T": _closed(next={"$ref": "#/$defs/T"})}}),
    _of({"$ref": "#/$defs/a~1b%20c"}, **{"$defs": {"a/b c": {"type": "string"}}}),
    {**CLOSED, "properties": {"e": CLOSED}},
    _closed(**{"$ref": {"type": "string"}, "type": {"type": "string"}, "allOf": {"type": "string"}}),
    {"name": "tool", "description": "", "parameters": _of({"type": "string"})},
]


@pytest.mark.parametrize(("schema", "path"), INVALID)
def test_a_fault_that_every_provider_refuses_is_invalid_with_its_place(schema: Any, path: str) -> None:
    found = health(schema)
    assert found.level is Level.INVALID
    assert path in {reason.path for reason in found.reasons}


@pytest.mark.parametrize(("schema", "path"), NOT_STRICT)
def test_an_obstacle_to_strict_mode_names_its_place(schema: Any, path: str) -> None:
    found = health(schema)
    assert (found.level, [reason.path for reason in found.reasons]) == (Level.NON_STRICT_ONLY, [path] * _count(found))


def _count(found: Health) -> int:
    assert found.reasons
    return len(found.reasons)


@pytest.mark.parametrize("schema", STRICT)
def test_a_schema_for_strict_mode_has_no_reasons(schema: Any) -> None:
    assert health(schema) == Health(Level.STRICT_COMPLIANT)


@pytest.mark.parametrize(
    "schema", [None, True, 5, "object", [], [{"type": "object"}], {1: 2}, {"type": {1, 2}}, object()]
)
def test_a_value_that_is_no_json_object_is_invalid_for_that_reason_alone(schema: Any) -> None:
    found = health(schema)
    assert (found.level, len(found.reasons)) == (Level.INVALID, 1)


def test_invalid_stays_invalid_and_reasons_add_up() -> None:
    found = health({"type": "object", "properties": {"a": {}, "b": {"type": "object"}, "c": {"type": "x"}}})
    assert found.level is Level.INVALID
    assert [reason.path for reason in found.reasons] == [
        "root",
        "root.properties.a",
        "root.properties.b",
        "root.properties.c",
    ]


def test_a_reason_reads_as_a_sentence_about_a_place() -> None:
    assert health(_of({"type": "array"})).reasons == (
        SchemaFinding("root.properties.a", "is an array without `items`"),
    )
    assert str(SchemaFinding("root", "is wrong")) == "root: is wrong"


def test_reasons_are_bounded_and_the_level_is_still_the_worst() -> None:
    open_objects = {f"p{number}": {"type": "object"} for number in range(5000)}
    found = health({"type": "object", "properties": {**open_objects, "last": {}}})
    assert (found.level, len(found.reasons)) == (Level.INVALID, 100)


def _nested(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        node = _closed(a=node)
    return node


def _cyclic() -> dict[str, Any]:
    node: dict[str, Any] = {"type": "object", "properties": {}}
    node["properties"]["a"] = node
    return node


def _shared() -> Any:
    node: Any = {"type": "string"}
    for _ in range(60):
        node = {"anyOf": [node, node]}
    return _of(node)


def _many_unions() -> Any:
    empty = {"anyOf": [CLOSED] * 500}
    chain: dict[str, Any] = {f"c{number}": {"$ref": f"#/$defs/c{number + 1}"} for number in range(500)}
    properties = {f"p{number}": {"$ref": f"#/$defs/c{number % 500}"} for number in range(1000)}
    return _closed(**properties) | {"$defs": {**chain, "c500": empty}}


@pytest.mark.slow
@pytest.mark.parametrize("schema", [_nested(5000), _nested(60), _cyclic(), _shared(), _many_unions()])
def test_deep_cyclic_and_multiplied_schemas_are_judged_in_bounded_time(schema: Any) -> None:
    assert health(schema).level is Level.INVALID


class _Hostile(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise MemoryError

    def __len__(self) -> int:
        raise SystemError


class _HostileText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise ValueError


@pytest.mark.parametrize(
    "schema", [_Hostile(), {"type": _HostileText("object")}, {"type": "object", "properties": _Hostile()}]
)
def test_an_object_that_raises_on_access_is_invalid(schema: Any) -> None:
    assert health(schema).level is Level.INVALID


@pytest.mark.slow
@given(ANY_JSON)
def test_every_json_value_has_a_health(value: Any) -> None:
    for schema in (value, {"type": "object", "properties": {"a": value}}, {"parameters": value}):
        found = health(schema)
        assert (found.level is Level.STRICT_COMPLIANT) == (not found.reasons)
