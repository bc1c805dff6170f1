"""The marks that make pydantic's types ours: what may be converted, how it is refused, what a schema shows.

Pydantic validates in strict mode, so that nothing is converted by accident. Each mark adds what may be converted: a
scalar is tried as it is, at pydantic's own speed, and only then converted; a container is turned into a list or dict
before its members are looked at. Whatever a tuple or a set is declared as, its value stays a list: the box rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from pydantic import (
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticOmit, core_schema

from sandbox.tools.plain_json import JSON, json_from_text
from sandbox.tools.safe_text import excerpt
from sandbox.tools.types import coercion
from sandbox.tools.types.validation_budget import CHARACTERS_OF_A_STEP, Attempt

STRICT: Final = ConfigDict(strict=True, extra="forbid")
HOLE: Final = "x-hole"
"""Stands in the schema of a frame where a part goes."""
_LONGEST_TEXT_OF_A_SCALAR: Final = 64
_OURS: Final = frozenset({"wrong", "missing", "extra_forbidden"})
_KIND_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
# What pydantic leaves in its own words, where it checks a constraint after a type that is made of several.
_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_OF_OBJECTS: Final = {"minLength": "minProperties", "maxLength": "maxProperties"}


Info: TypeAlias = core_schema.ValidationInfo[Any]
Shown: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValueType:
    """What an annotation means: the type for pydantic, and its name in a message."""

    type: Any
    expected: str
    takes_text: bool = False
    size: int = 1
    """How many types it is made of; types that hold types multiply."""
    members: tuple[ValueType, ...] = ()
    """What a union is made of."""
    is_tried_last: bool = False
    cell: RecursiveType | None = None
    """What it is a use of, where it is a type inside itself."""
    is_common: bool = False
    """Whether any source may name it; the same type is then the same object."""
    form: tuple[str, Hashable] | None = None
    """How it is made of its parts, where not all of them are common."""
    parts: tuple[ValueType, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FieldType:
    """One member of a record, or one parameter of a call."""

    name: str
    type: ValueType
    is_required: bool
    is_optional: bool = False
    """Whether None is one of its values; it is then shown without, and left out it is None."""
    default: Any = None
    description: str | None = None
    fills_none: bool = False
    """Whether it becomes None when it is left out, because its class asks for a value."""


@dataclass(slots=True, eq=False, repr=False)
class RecursiveType:
    """A type that contains itself, by its name; filled in when it is known."""

    name: str
    type: ValueType | None = None
    adapter: TypeAdapter[Any] | None = None

    def opened(self) -> TypeAdapter[Any]:
        """What validates it, made when it is first needed."""
        if self.adapter is None:
            assert self.type is not None
            self.adapter = TypeAdapter(self.type.type, config=STRICT)
        return self.adapter


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScalarType:
    """Marks a type whose values are taken as they are or converted."""

    expected: str
    convert: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        unshown = {"pydantic_js_functions": [_omitted]}
        converted = core_schema.with_info_plain_validator_function(self._converted, metadata=unshown)
        return core_schema.union_schema(
            [handler(source), converted],
            mode="left_to_right",
            custom_error_type="wrong",
            custom_error_message="must be {expected}",
            custom_error_context={"expected": self.expected},
        )

    def _converted(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.converts:
            try:
                return self.convert(value)
            except ValueError:
                pass
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LiteralType:
    """Marks a literal type. Pydantic takes True for 1, so the values are compared here, with their types."""

    values: frozenset[tuple[type, JSON]]
    listed: tuple[JSON, ...]
    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._chosen)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return self.shown()

    def shown(self) -> Shown:
        """Its schema."""
        kinds = list(dict.fromkeys(_KIND_NAMES[type(value)] for value in self.listed))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(self.listed)}

    def _chosen(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        candidates = [value, *_converted_scalars(value)] if attempt.converts else [value]
        for candidate in candidates:
            if isinstance(candidate, str | int | float | None) and (type(candidate), candidate) in self.values:
                return candidate
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContainerType:
    """Marks a container type: what its value is made into before its members are checked, and how many it has."""

    expected: str
    kind: type[list[JSON]] | type[dict[str, JSON]]
    convert: Callable[[object], object]
    length: int | None = None
    shown: tuple[tuple[str, JSON], ...] = ()
    """What the schema says beside, or instead of, what pydantic makes of the type."""
    left_out: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        schema = {**handler(core), **dict(self.shown)}
        return {key: value for key, value in schema.items() if key != self.left_out}

    def _checked(self, value: object, members: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        found = self._found(value, attempt)
        if found is None:
            return attempt.refuse(self.expected)
        attempt.work.spend(1 + len(found) // 2)
        checked = members(found)
        return list(checked) if isinstance(checked, tuple) else checked

    def _found(self, value: object, attempt: Attempt) -> Any:
        found = from_text(value, attempt, self.convert)
        if not isinstance(found, self.kind) or self.length not in (None, len(found)):
            return None
        return tuple(found) if self.length is not None else found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hole:
    """Marks the place of a part in a type that is only made to be written."""

    number: int

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return {HOLE: self.number}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NullableType:
    """Marks an optional type whose null may be written as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._nulled, handler(source))

    def _nulled(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        return None if attempt.converts and value == "null" else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnionType:
    """Marks a union: as it is, else what its JSON text stands for, else converted; each time in the declared order."""

    members: tuple[ValueType, ...]
    expected: str
    _adapters: list[TypeAdapter[Any]] = field(default_factory=list, compare=False, repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        shown = core_schema.union_schema([handler.generate_schema(member.type) for member in self.members])
        return core_schema.with_info_wrap_validator_function(self._chosen, shown)

    def _chosen(self, value: object, _shown: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        for candidate, converts in _tries(value, attempt):
            for member in self._opened():
                attempt.work.spend(1)
                try:
                    inner = Attempt(attempt.work, converts=converts, refusals_left=1)
                    return member.validate_python(candidate, context=inner)
                except ValidationError:
                    continue
        return attempt.refuse(self.expected)

    def _opened(self) -> list[TypeAdapter[Any]]:
        """What validates the members, made when it is first needed: reading a schema needs none of it."""
        if not self._adapters:
            # An integer is a number too, so a float among the members is tried last: 5 stays 5 for `float | int`.
            ordered = sorted(self.members, key=lambda member: member.is_tried_last)
            self._adapters[:] = [TypeAdapter(member.type, config=STRICT) for member in ordered]
        return self._adapters


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextType:
    """Marks a type of values that JSON has only text for: checked by pydantic, handed over as the text it is."""

    kind: Any
    expected: str
    numbers_too: bool = False
    adapter: TypeAdapter[Any] | None = None
    """What checks a value of it that is bounded."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return {"type": "string", "format": "decimal"} if self.numbers_too else _adapter(self.kind).json_schema()

    def _checked(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        text = str(value) if self.numbers_too and type(value) in (int, float) else value
        if not isinstance(text, str):
            return attempt.refuse(self.expected)
        try:
            (self.adapter or _adapter(self.kind)).validate_python(text)
        except ValidationError as error:
            said = f": {_first_of(error)['msg']}" if self.adapter else ""
            return attempt.refuse(excerpt(f"{self.expected}{said}"))
        return text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConstrainedType:
    """Marks a type with constraints. One that is broken is refused like a wrong type, by the same count."""

    expected: str
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        schema = {_KEYWORDS.get(key, key): value for key, value in handler(core).items()}
        if self.pattern is not None and "anyOf" not in schema:
            schema["pattern"] = self.pattern
        if schema.get("type") == "object":
            return {_OF_OBJECTS.get(key, key): value for key, value in schema.items()}
        return schema

    def _checked(self, value: object, inner: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        try:
            return inner(value)
        except TypeError:
            return attempt.refuse(self.expected)
        except ValidationError as error:
            first = _first_of(error)
            if first["type"] in _OURS:
                raise
            return attempt.refuse(excerpt(f"{self.expected}: {_told(first['msg'], value)}"))


def from_text(value: object, attempt: Attempt, convert: Callable[[object], object]) -> object:
    """The value, or what it is made into where it is text that may be converted; None for text that cannot."""
    if not attempt.converts or not isinstance(value, str):
        return value
    attempt.work.spend(len(value) // CHARACTERS_OF_A_STEP)
    try:
        return convert(value)
    except ValueError:
        return None


def _first_of(error: ValidationError) -> ErrorDetails:
    return error.errors(include_url=False, include_input=False, include_context=False)[0]


def _told(message: str, value: object) -> str:
    """What pydantic says of a constraint; it counts the characters of a text as items here."""
    if not isinstance(value, str):
        return message
    return message.replace(" items after validation", " characters").replace(" item after validation", " character")


def _omitted(*_: object) -> Shown:
    """What may be converted is for arguments only; the schema shows the type itself."""
    raise PydanticOmit


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _tries(value: object, attempt: Attempt) -> Iterator[tuple[object, bool]]:
    """What a union looks at, one after the other, and whether its members may convert it."""
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
        if len(value) > _LONGEST_TEXT_OF_A_SCALAR:
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
