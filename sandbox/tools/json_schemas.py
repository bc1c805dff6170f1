"""The JSON schema of a type: written by pydantic, with proper references where a type contains itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from sandbox.tools.value_types import REFERENCE, STRICT, Cell, ValueType

_BY_NAME: Final = ("properties", "$defs", "patternProperties")
_DATA: Final = ("default", "enum", "const", "examples", "required")
_FIRST: Final = ("type", "format", "description", "default", "enum")


def json_schema_of(found: ValueType, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """The JSON schema of a type; types that contain themselves are under `$defs`."""
    wanted: list[str] = []
    schema = _referring(_written(found), wanted)
    definitions: dict[str, Any] = {}
    while wanted:
        name = wanted.pop(0)
        if name not in definitions and (inner := cells[name].type) is not None:
            definitions[name] = {}
            definitions[name] = _referring(_written(inner), wanted)
    return {**schema, "$defs": definitions} if definitions else schema


def _written(found: ValueType) -> dict[str, Any]:
    return TypeAdapter(found.type, config=STRICT).json_schema()


def _referring(node: Any, wanted: list[str]) -> Any:
    """The schema with proper references where a type contains itself."""
    if isinstance(node, list):
        return [_referring(each, wanted) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(name := node.get(REFERENCE), str):
        wanted.append(name)
        return {"$ref": f"#/$defs/{name}", **{key: value for key, value in node.items() if key != REFERENCE}}
    return {key: _inner(key, node[key], wanted) for key in sorted(node, key=_place)}


def without_titles(node: Any) -> Any:
    """A schema without the titles that pydantic makes of names; a property may be called `title`."""
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


def _inner(keyword: str, value: Any, wanted: list[str]) -> Any:
    """What stands under a keyword: schemas by names, data, or a schema."""
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: _referring(each, wanted) for name, each in value.items()}
    return value if keyword in _DATA else _referring(value, wanted)


def _place(keyword: str) -> int:
    """Where a keyword stands: what it is before what it is made of."""
    return _FIRST.index(keyword) if keyword in _FIRST else len(_FIRST)
