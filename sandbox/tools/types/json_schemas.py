"""The JSON schema of a type: written by pydantic, with proper references where a type contains itself.

Pydantic takes most of a millisecond to write one, and nearly all of that before the first word. So what is common is
written once; a type that is made of others (a record, a list of records) is put together of theirs; and what is left
of all of them is written in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from sandbox.tools.types.pydantic_types import HOLE, STRICT, FieldType, LiteralType, RecursiveType, ValueType
from sandbox.tools.types.record_types import REFERENCE, RecordType, RecursiveUse
from sandbox.tools.types.value_types import frame_of, record_of
from sandbox.tools.weighted_lru import WeightedLRU

_BY_NAME: Final = ("properties", "$defs", "patternProperties")
_DATA: Final = ("default", "enum", "const", "examples", "required")
_FIRST: Final = ("type", "format", "description", "default", "enum")
_schemas: WeightedLRU[ValueType, dict[str, Any]] = WeightedLRU(most=1024, heaviest=4096)


def json_schema_of(found: ValueType, cells: Mapping[str, RecursiveType]) -> dict[str, Any]:
    """The JSON schema of a type; types that contain themselves are under `$defs`."""
    return _complete(_written(found), cells)


def _complete(written: Mapping[str, Any], cells: Mapping[str, RecursiveType]) -> dict[str, Any]:
    """A copy of what is written, with the definitions that it refers to."""
    wanted: list[str] = []
    schema = _referring(written, wanted)
    definitions: dict[str, Any] = {}
    while wanted:
        name = wanted.pop(0)
        if name not in definitions and (inner := cells[name].type) is not None:
            definitions[name] = {}
            definitions[name] = _referring(_written(inner), wanted)
    return {**schema, "$defs": definitions} if definitions else schema


def _written(found: ValueType) -> dict[str, Any]:
    return _Writing().of(found)


class _Writing:
    """One schema, put together of what is written already, and of what pydantic then writes in one go."""

    def __init__(self) -> None:
        self._written: dict[ValueType, dict[str, Any] | None] = {}
        self._frames: dict[ValueType, ValueType] = {}

    def of(self, found: ValueType) -> dict[str, Any]:
        self._look_up(found)
        unwritten = [each for each, schema in self._written.items() if schema is None]
        if unwritten:
            members = [FieldType(str(number), each, is_required=True) for number, each in enumerate(unwritten)]
            schemas = TypeAdapter(record_of(members).type, config=STRICT).json_schema()["properties"]
            self._written.update({each: _kept(each, schemas[str(at)]) for at, each in enumerate(unwritten)})
        return self._put_together(found)

    def _look_up(self, found: ValueType) -> None:
        """The schemas of all that a type is put together of, as far as they are there."""
        mark = _mark(found)
        if found in self._written or found in self._frames:
            return
        if isinstance(mark, RecordType):
            for each in mark.fields:
                self._look_up(each.type)
        elif (frame := frame_of(found)) is not None:
            self._frames[found] = frame
            for part in (frame, *found.parts):
                self._look_up(part)
        else:
            self._written[found] = mark.shown() if isinstance(mark, LiteralType | RecursiveUse) else _schemas.get(found)

    def _put_together(self, found: ValueType) -> dict[str, Any]:
        mark, schema = _mark(found), self._written.get(found)
        if schema is not None:
            return schema
        if isinstance(mark, RecordType):
            return mark.shown({each.name: self._put_together(each.type) for each in mark.fields})
        parts = [self._put_together(part) for part in found.parts if not part.is_common]
        filled: dict[str, Any] = _filled(self._put_together(self._frames[found]), parts)
        return filled


def _filled(node: Any, parts: Sequence[dict[str, Any]]) -> Any:
    """What is written of a frame, with the parts in its holes."""
    if isinstance(node, list):
        return [_filled(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if HOLE in node:
        return {**parts[node[HOLE]], **{key: value for key, value in node.items() if key != HOLE}}
    filled = {key: _filled(value, parts) for key, value in node.items()}
    return {**filled, "anyOf": _flat(filled["anyOf"])} if "anyOf" in filled else filled


def _flat(members: list[Any]) -> list[Any]:
    """The members of a union as pydantic writes them: each once, and those of a union inside it as its own."""
    flat: list[Any] = []
    for member in members:
        for each in member["anyOf"] if member.keys() == {"anyOf"} else [member]:
            flat += [] if each in flat else [each]
    return flat


def _mark(found: ValueType) -> object:
    """What makes a type ours, where that is all there is to it."""
    marks: tuple[object, ...] = getattr(found.type, "__metadata__", ())
    return marks[0] if len(marks) == 1 else None


def _kept(found: ValueType, schema: dict[str, Any]) -> dict[str, Any]:
    if found.is_common:
        _schemas.put(found, schema, weight=found.size)
    return schema


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
