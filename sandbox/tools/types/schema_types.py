"""The types that a JSON schema means, for tools that write out a schema instead of annotations.

The types are those of `value_types`, so such arguments are converted by the same rules and refused in the same words.
Patterns, bounds, `allOf` and `not` are left out; `bind` validates the whole schema afterwards. A reference is followed
if it leads to a part of the schema. A part inside itself, and everything else without a type here, is anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandbox.tools.types.pydantic_types import FieldType, ValueType
from sandbox.tools.types.value_types import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    TEXT,
    array_of,
    object_of,
    one_of,
    one_of_values,
    record_of,
)

MAX_DEPTH: Final = 32
MAX_TYPES: Final = 2000
_SCALARS: Final = {"string": TEXT, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "null": NULL}
_MAX_ENUM_LENGTH: Final = 1000


def schema_type(node: object, root: Mapping[str, Any], *, depth: int = 0) -> ValueType:
    """Return the type of a schema, or of a part of a schema."""
    if not isinstance(node, Mapping) or depth > MAX_DEPTH:
        return ANYTHING
    found = _type_of(node, root, depth=depth + 1)
    return found if found.size <= MAX_TYPES else ANYTHING


def _type_of(node: Mapping[str, Any], root: Mapping[str, Any], *, depth: int) -> ValueType:
    if "$ref" in node:
        return schema_type(_resolve(node["$ref"], root), root, depth=depth)
    if "enum" in node or "const" in node:
        return _enum([node["const"]] if "const" in node else node["enum"])
    members = node.get("anyOf") or node.get("oneOf")
    if isinstance(members, list | tuple):
        return one_of([schema_type(member, root, depth=depth) for member in members])
    kinds = node.get("type")
    if isinstance(kinds, list | tuple) and kinds:
        return one_of([_of_kind(kind, node, root, depth=depth) for kind in kinds])
    return _of_kind(kinds, node, root, depth=depth)


def _of_kind(kind: object, node: Mapping[str, Any], root: Mapping[str, Any], *, depth: int) -> ValueType:
    if kind == "array":
        items = node.get("items") if "prefixItems" not in node else None
        return array_of(schema_type(items, root, depth=depth))
    if kind == "object":
        return _object(node, root, depth=depth)
    return _SCALARS.get(kind, ANYTHING) if isinstance(kind, str) else ANYTHING


def _object(node: Mapping[str, Any], root: Mapping[str, Any], *, depth: int) -> ValueType:
    properties, others = node.get("properties"), node.get("additionalProperties")
    if not isinstance(properties, Mapping) or not properties:
        return object_of(schema_type(others, root, depth=depth))
    listed = node.get("required")
    required = listed if isinstance(listed, list | tuple) else ()
    fields = [
        FieldType(str(name), schema_type(part, root, depth=depth), is_required=name in required)
        for name, part in properties.items()
    ]
    return record_of(fields, extra="forbid" if others is False else "allow")


def _enum(values: object) -> ValueType:
    """Return the type of scalar values; other values are left to the validation of the whole schema."""
    if not isinstance(values, list | tuple) or not 0 < len(values) <= _MAX_ENUM_LENGTH:
        return ANYTHING
    plain = tuple(values)
    return one_of_values(plain) if all(value is None or isinstance(value, str | int) for value in plain) else ANYTHING


def _resolve(reference: object, root: Mapping[str, Any]) -> object:
    """Return the part of the schema that `#/$defs/Name` leads to."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
