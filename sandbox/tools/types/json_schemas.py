"""The JSON schemas of types, as pydantic would write them, in far less time.

Each type carries its schema, composed of the schemas of its parts. `json_schema_of` puts references in the places
where a type contains itself, and brings the keywords of each node into one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from sandbox.tools.plain_json import JSON
from sandbox.tools.types.pydantic_types import FieldType, RecursiveType

REFERENCE: Final = "x-inside"
"""Stands in the schema of a type where the type contains itself, until `json_schema_of` writes a `$ref`."""

Shown: TypeAlias = dict[str, Any]

_BY_NAME: Final = ("properties", "$defs", "patternProperties")
_DATA: Final = ("default", "enum", "const", "examples", "required")
_FIRST: Final = ("type", "format", "description", "default", "enum")
_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS: Final = {"array": "Items", "object": "Properties"}
_KINDS: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def json_schema_of(schema: Shown, recursive: Mapping[str, RecursiveType]) -> Shown:
    """Return the complete JSON schema, with the types that contain themselves under `$defs`."""
    wanted: list[str] = []
    complete: Shown = _with_references(schema, wanted)
    definitions: Shown = {}
    while wanted:
        name = wanted.pop(0)
        if name not in definitions and (inner := recursive[name].type) is not None:
            definitions[name] = {}
            definitions[name] = _with_references(inner.schema, wanted)
    return {**complete, "$defs": definitions} if definitions else complete


def values_schema(values: Sequence[JSON]) -> Shown:
    """Return the schema of exactly these values."""
    kinds = list(dict.fromkeys(_KINDS[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}


def union_schema(members: Sequence[Shown]) -> Shown:
    """Return the schema of a union, which names each member once; members of an inner union become its own."""
    flat: list[Shown] = []
    for member in members:
        for each in member["anyOf"] if member.keys() == {"anyOf"} else [member]:
            flat += [] if each in flat else [each]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def record_schema(fields: Sequence[FieldType], *, extra: str | None, description: str | None) -> Shown:
    """Return the schema of an object with these members."""
    schema: Shown = {"type": "object"}
    if description:
        schema["description"] = description
    schema["properties"] = {each.name: _member_schema(each) for each in fields}
    schema["required"] = [each.name for each in fields if each.is_required]
    return schema if extra in (None, "ignore") else {**schema, "additionalProperties": extra == "allow"}


def constrained_schema(schema: Shown, constraints: Mapping[str, Any]) -> Shown:
    """Return the schema with the constraints of pydantic's `Field`."""
    kind = schema.get("type")
    of = _LENGTHS.get(kind, "Length") if isinstance(kind, str) else "Length"
    keywords = {**_KEYWORDS, "min_length": f"min{of}", "max_length": f"max{of}", "pattern": "pattern"}
    if "anyOf" in schema:
        del keywords["pattern"]  # the pattern holds for the strings of a union only, which no keyword says
    bounds = {keywords[name]: value for name, value in constraints.items() if name in keywords}
    remarks = {name: constraints[name] for name in ("description", "examples") if name in constraints}
    return {**schema, **bounds, **remarks, **constraints.get("json_schema_extra", {})}


def without_null(schema: Shown) -> Shown:
    """Return the schema without null among the values that it admits, unless null is the only one."""
    shown = dict(schema)
    if isinstance(shown.get("anyOf"), list):
        members = [member for member in shown["anyOf"] if member != {"type": "null"}]
        if len(members) == 1:
            del shown["anyOf"]
            return {**members[0], **shown}
        shown["anyOf"] = members or shown["anyOf"]
    if isinstance(shown.get("enum"), list) and any(value is not None for value in shown["enum"]):
        shown["enum"] = [value for value in shown["enum"] if value is not None]
    if isinstance(shown.get("type"), list):
        kinds = [kind for kind in shown["type"] if kind != "null"]
        shown["type"] = kinds[0] if len(kinds) == 1 else kinds
    return shown


def without_titles(node: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names; a property may be called `title`."""
    if isinstance(node, list):
        return [without_titles(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: without_titles(each) for name, each in value.items()}
        if key in _BY_NAME and isinstance(value, dict)
        else value
        if key in _DATA
        else without_titles(value)
        for key, value in node.items()
        if key != "title" or not isinstance(value, str)
    }


def _member_schema(field: FieldType) -> Shown:
    schema = without_null(field.type.schema) if field.is_optional else dict(field.type.schema)
    if field.description:
        schema["description"] = field.description
    if field.default is not None:
        schema["default"] = field.default
    return schema


def _with_references(node: Any, wanted: list[str]) -> Any:
    """Return a copy with `$ref` where a type contains itself; add the names referred to to `wanted`."""
    if isinstance(node, list):
        return [_with_references(each, wanted) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(name := node.get(REFERENCE), str):
        wanted.append(name)
        return {"$ref": f"#/$defs/{name}", **{key: value for key, value in node.items() if key != REFERENCE}}
    return {key: _keyword_value(key, node[key], wanted) for key in sorted(node, key=_rank)}


def _keyword_value(keyword: str, value: Any, wanted: list[str]) -> Any:
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: _with_references(each, wanted) for name, each in value.items()}
    return value if keyword in _DATA else _with_references(value, wanted)


def _rank(keyword: str) -> int:
    return _FIRST.index(keyword) if keyword in _FIRST else len(_FIRST)
