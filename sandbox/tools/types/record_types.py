"""Objects with named members, and types that contain themselves.

An object is a record without a name of its own: its schema stands where it is used, and its value is the dict of the
members that were given, whatever class the box makes of it. Only what contains itself is known by a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import core_schema

from sandbox.tools.types import coercion
from sandbox.tools.types.pydantic_types import FieldType, Info, RecursiveType, Shown, from_text
from sandbox.tools.types.validation_budget import Attempt

REFERENCE: Final = "x-inside"
"""Stands in a schema where a type contains itself, until the schema is put together."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordType:
    """Marks an object with named members; its value is a dict of those that were given."""

    fields: tuple[FieldType, ...]
    expected: str
    extra: Literal["forbid", "ignore", "allow"] | None
    description: str | None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        members = core_schema.typed_dict_schema(
            {each.name: _member(each, handler) for each in self.fields}, extra_behavior=self.extra or "forbid"
        )
        return core_schema.with_info_wrap_validator_function(self._checked, members)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return self.shown(handler(core).get("properties", {}))

    def shown(self, members: Mapping[str, Mapping[str, Any]]) -> Shown:
        """Its schema, made of those of its members' types."""
        schema: dict[str, Any] = {"type": "object"}
        if self.description:
            schema["description"] = self.description
        schema["properties"] = {each.name: _shown_member(each, members[each.name]) for each in self.fields}
        schema["required"] = [each.name for each in self.fields if each.is_required]
        return schema if self.extra in (None, "ignore") else {**schema, "additionalProperties": self.extra == "allow"}

    def _checked(self, value: object, members: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        found = from_text(value, attempt, coercion.object_from)
        if not isinstance(found, dict):
            return attempt.refuse(self.expected)
        attempt.work.spend(1 + len(self.fields))
        checked = members(found)
        unfilled = [each.name for each in self.fields if each.fills_none and each.name not in found]
        return {**checked, **dict.fromkeys(unfilled)} if unfilled else checked


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecursiveUse:
    """Marks a type inside itself."""

    cell: RecursiveType

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return self.shown()

    def shown(self) -> Shown:
        """What stands in a schema for it."""
        return {REFERENCE: self.cell.name}

    def _checked(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        try:
            return self.cell.opened().validate_python(value, context=attempt)
        except RecursionError:
            return attempt.refuse("nested less deeply")


def _member(field: FieldType, handler: GetCoreSchemaHandler) -> core_schema.TypedDictField:
    schema = handler.generate_schema(field.type.type)
    return core_schema.typed_dict_field(schema, required=field.is_required)


def _shown_member(field: FieldType, made: Mapping[str, Any]) -> Shown:
    schema = {key: value for key, value in made.items() if key != "title"}
    if field.is_optional:
        schema = without_null(schema)
    if field.description:
        schema["description"] = field.description
    if field.default is not None:
        schema["default"] = field.default
    return schema


def without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same without null among what it admits, unless that is all."""
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
