"""Classes that stand in pydantic's annotations and decide what may be converted, and how a value is refused.

Pydantic validates in strict mode, so nothing is converted by accident. Each class adds what may be converted: a scalar
is tried as it is, at pydantic's own speed, and converted only then; a container becomes a list or dict before its
members are validated. A tuple or a set stays a list here; the box makes what the annotation says.

An object is a record without a name: its value is the dict of the members that were given, whatever class the box
makes of it. Only a type that contains itself has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, core_schema

from sandbox.tools.plain_json import JSON, json_from_text
from sandbox.tools.safe_text import excerpt
from sandbox.tools.types import coercion
from sandbox.tools.types.validation_budget import CHARACTERS_OF_A_STEP, Attempt

STRICT: Final = ConfigDict(strict=True, extra="forbid")
_MAX_SCALAR_CHARACTERS: Final = 64
_OWN_ERRORS: Final = frozenset({"wrong", "missing", "extra_forbidden"})

Info: TypeAlias = core_schema.ValidationInfo[Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValueType:
    """The meaning of an annotation: the type for pydantic, the JSON schema, and the name of the type in a message."""

    type: Any
    expected: str
    schema: dict[str, Any]
    """Shared by all types that are made of this one: never changed."""
    takes_text: bool = False
    size: int = 1
    """The number of types that it is made of."""
    members: tuple[ValueType, ...] = ()
    """The members of a union."""
    is_tried_last: bool = False
    recursive: RecursiveType | None = None
    """The type that contains itself in the place of this one."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FieldType:
    """A member of a record, or a parameter of a call."""

    name: str
    type: ValueType
    is_required: bool
    is_optional: bool = False
    """Whether None is one of its values; the schema leaves null out, and an absent member is None."""
    default: Any = None
    description: str | None = None
    fills_none: bool = False
    """Whether an absent member becomes None, because its class asks for a value."""


@dataclass(slots=True, eq=False, repr=False)
class RecursiveType:
    """A type that contains itself, by name; `type` is set when the whole type has been read."""

    name: str
    type: ValueType | None = None
    _adapter: TypeAdapter[Any] | None = None

    def adapter(self) -> TypeAdapter[Any]:
        """Return the validator, made at first use."""
        if self._adapter is None:
            assert self.type is not None
            self._adapter = TypeAdapter(self.type.type, config=STRICT)
        return self._adapter


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScalarType:
    """A type whose values are taken as they are, or converted."""

    expected: str
    convert: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.union_schema(
            [handler(source), core_schema.with_info_plain_validator_function(self._convert)],
            mode="left_to_right",
            custom_error_type="wrong",
            custom_error_message="must be {expected}",
            custom_error_context={"expected": self.expected},
        )

    def _convert(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.converts:
            try:
                return self.convert(value)
            except ValueError:
                pass
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LiteralType:
    """A literal. Pydantic takes True for 1, so this class compares the values, with their types."""

    values: frozenset[tuple[type, JSON]]
    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._choose)

    def _choose(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        candidates = [value, *_converted_scalars(value)] if attempt.converts else [value]
        for candidate in candidates:
            if isinstance(candidate, str | int | float | None) and (type(candidate), candidate) in self.values:
                return candidate
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContainerType:
    """A list or dict: converts the value before its members are validated, and checks the length of a tuple."""

    expected: str
    kind: type[list[JSON]] | type[dict[str, JSON]]
    convert: Callable[[object], object]
    length: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._check, handler(source))

    def _check(self, value: object, members: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        found: Any = _from_text(value, attempt, self.convert)
        if not isinstance(found, self.kind) or self.length not in (None, len(found)):
            return attempt.refuse(self.expected)
        attempt.work.spend(1 + len(found) // 2)
        checked = members(found if self.length is None else tuple(found))
        return list(checked) if isinstance(checked, tuple) else checked


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NullableType:
    """An optional type whose null may be written as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._read_null, handler(source))

    def _read_null(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        return None if attempt.converts and value == "null" else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnionType:
    """A union: tries the value as it is, then the value of its JSON text, then conversions, in the declared order."""

    members: tuple[ValueType, ...]
    expected: str
    _adapters: list[TypeAdapter[Any]] = field(default_factory=list, compare=False, repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._choose)

    def _choose(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        for candidate, converts in _tries(value, attempt):
            for adapter in self._member_adapters():
                attempt.work.spend(1)
                try:
                    inner = Attempt(attempt.work, converts=converts, refusals_left=1)
                    return adapter.validate_python(candidate, context=inner)
                except ValidationError:
                    continue
        return attempt.refuse(self.expected)

    def _member_adapters(self) -> list[TypeAdapter[Any]]:
        if not self._adapters:
            # An integer is a number too, so a float among the members is tried last: 5 stays 5 for `float | int`.
            ordered = sorted(self.members, key=lambda member: member.is_tried_last)
            self._adapters[:] = [TypeAdapter(member.type, config=STRICT) for member in ordered]
        return self._adapters


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextType:
    """A type of values that JSON writes as text: pydantic checks the text, and the call gets the text."""

    kind: Any
    expected: str
    numbers_too: bool = False
    is_bounded: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._check)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema that pydantic writes for the kind of value."""
        return {"type": "string", "format": "decimal"} if self.numbers_too else _adapter(self.kind).json_schema()

    def _check(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        text = str(value) if self.numbers_too and type(value) in (int, float) else value
        if not isinstance(text, str):
            return attempt.refuse(self.expected)
        try:
            (TypeAdapter(self.kind) if self.is_bounded else _adapter(self.kind)).validate_python(text)
        except ValidationError as error:
            detail = f": {_first_of(error)['msg']}" if self.is_bounded else ""
            return attempt.refuse(excerpt(f"{self.expected}{detail}"))
        return text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConstrainedType:
    """A type with constraints. A value that breaks one is refused like a value of a wrong type."""

    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._check, handler(source))

    def _check(self, value: object, inner: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        try:
            return inner(value)
        except TypeError:
            return attempt.refuse(self.expected)
        except ValidationError as error:
            first = _first_of(error)
            if first["type"] in _OWN_ERRORS:
                raise
            return attempt.refuse(excerpt(f"{self.expected}: {_message(first['msg'], value)}"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordType:
    """An object with named members; its value is a dict of the members that were given."""

    fields: tuple[FieldType, ...]
    expected: str
    extra: Literal["forbid", "ignore", "allow"] | None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        members = {
            each.name: core_schema.typed_dict_field(handler.generate_schema(each.type.type), required=each.is_required)
            for each in self.fields
        }
        typed_dict = core_schema.typed_dict_schema(members, extra_behavior=self.extra or "forbid")
        return core_schema.with_info_wrap_validator_function(self._check, typed_dict)

    def _check(self, value: object, members: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        found = _from_text(value, attempt, coercion.object_from)
        if not isinstance(found, dict):
            return attempt.refuse(self.expected)
        attempt.work.spend(1 + len(self.fields))
        checked = members(found)
        unfilled = [each.name for each in self.fields if each.fills_none and each.name not in found]
        return {**checked, **dict.fromkeys(unfilled)} if unfilled else checked


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecursiveUse:
    """The place inside a type where the type contains itself."""

    recursive: RecursiveType

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._check)

    def _check(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        try:
            return self.recursive.adapter().validate_python(value, context=attempt)
        except RecursionError:
            return attempt.refuse("nested less deeply")


def _from_text(value: object, attempt: Attempt, convert: Callable[[object], object]) -> object:
    """Return the value, converted if it is text and may be converted; None if the text cannot be converted."""
    if not attempt.converts or not isinstance(value, str):
        return value
    attempt.work.spend(len(value) // CHARACTERS_OF_A_STEP)
    try:
        return convert(value)
    except ValueError:
        return None


def _first_of(error: ValidationError) -> ErrorDetails:
    return error.errors(include_url=False, include_input=False, include_context=False)[0]


def _message(message: str, value: object) -> str:
    # Pydantic counts the characters of a text as items here, because the type is made of several.
    if not isinstance(value, str):
        return message
    return message.replace(" items after validation", " characters").replace(" item after validation", " character")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _tries(value: object, attempt: Attempt) -> Iterator[tuple[object, bool]]:
    """Yield what a union tries, in order, and whether the members may convert it."""
    yield value, False
    if not attempt.converts:
        return
    if isinstance(value, str):
        attempt.work.spend(len(value) // CHARACTERS_OF_A_STEP)
        try:
            parsed = json_from_text(value)
        except ValueError:
            pass
        else:
            yield parsed, False
            if not isinstance(parsed, str):
                yield parsed, True
        if len(value) > _MAX_SCALAR_CHARACTERS:
            return
    yield value, True


def _converted_scalars(value: object) -> list[object]:
    converted: list[object] = []
    for convert in (coercion.integer_from, coercion.boolean_from, coercion.null_from):
        try:
            converted.append(convert(value))
        except ValueError:
            continue
    return converted
