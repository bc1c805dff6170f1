"""The types an annotation can mean, as pydantic types that coerce by the rules of `coercion` and by no others.

*One route.* The same types give the JSON schema a model sees: pydantic writes it, and a type here says only what
pydantic cannot know (a set is an array of unique items; an optional field is shown without its null). Objects are
records without names of their own, so a schema holds no references except where a type contains itself.

Pydantic validates in strict mode, so that nothing is converted by accident. Each type here adds what may be converted:
a scalar is tried as it is, at pydantic's own speed, and only then converted; a container is turned into a list or dict
before its members are looked at. Whatever a tuple or a set is declared as, its value stays a list: the box rebuilds it.

*Bounded errors.* Pydantic collects every error there is, which for a list of a million wrong items is gigabytes. Each
refusal therefore goes through the `Attempt` of its validation. After a hundred of them an attempt lets everything pass,
which is sound because it has failed a hundred times already: a refusal inside one attempt is always final, and a union,
whose members may be refused while the union is not, makes an attempt of its own for each member it tries.

*Bounded work.* Unions inside unions multiply, and so does text that is parsed again for each member. All attempts of
one validation share a `Work`, which ends it with `TooMuchWork` instead of minutes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError, PydanticOmit, SchemaError, core_schema

from sandbox.tools import coercion
from sandbox.tools.excerpt import excerpt, name_list
from sandbox.tools.plain_json import JSON, json_from_text

MAX_REFUSALS: Final = 100
MAX_WORK: Final = 3_000_000
_CHARACTERS_OF_A_STEP: Final = 64
STRICT: Final = ConfigDict(strict=True, extra="forbid")
_LONGEST_TEXT_OF_A_SCALAR: Final = 64

REFERENCE: Final = "x-inside"
"""Stands in a schema where a type contains itself, until the schema is put together."""
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


class TooMuchWork(Exception):
    """The arguments and the declared types together take too long to compare."""


@dataclass(slots=True)
class Work:
    """What one validation may still do."""

    left: int = MAX_WORK

    def spend(self, steps: int) -> None:
        """Count steps that multiply."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


@dataclass(slots=True)
class Attempt:
    """One try at validating: whether it may convert, and how many more refusals it counts."""

    work: Work
    converts: bool = True
    refusals_left: int = MAX_REFUSALS

    @property
    def is_lost(self) -> bool:
        """Whether it has been refused so often that nothing more needs looking at."""
        return self.refusals_left <= 0

    def refuse(self, expected: str) -> object:
        """Raise, unless this attempt has been refused often enough; then anything may stand in for the value."""
        self.refusals_left -= 1
        if self.refusals_left >= 0:
            raise PydanticCustomError("wrong", "must be {expected}", {"expected": expected})
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ValueType:
    """What an annotation means: the type for pydantic, and its name in a message."""

    type: Any
    expected: str
    takes_text: bool = False
    size: int = 1
    """How many types it is made of; types that hold types multiply."""
    members: tuple[ValueType, ...] = ()
    """What a union is made of."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldType:
    """One member of a record, or one parameter of a call."""

    name: str
    type: ValueType
    is_required: bool
    is_optional: bool = False
    """Whether None is one of its values; it is then shown without, and left out it is None."""
    default: Any = None
    description: str | None = None


@dataclass(slots=True, eq=False)
class Cell:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Scalar:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Marks a literal type. Pydantic takes True for 1, so the values are compared here, with their types."""

    values: frozenset[tuple[type, JSON]]
    listed: tuple[JSON, ...]
    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._chosen)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        kinds = list(dict.fromkeys(_KIND_NAMES[type(value)] for value in self.listed))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(self.listed)}

    def _chosen(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        candidates = [value, *_converted_scalars(value)] if attempt.converts else [value]
        for candidate in candidates:
            if isinstance(candidate, str | int | None) and (type(candidate), candidate) in self.values:
                return candidate
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True, eq=False)
class _Container:
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
        found = value
        if attempt.converts and isinstance(value, str):
            attempt.work.spend(len(value) // _CHARACTERS_OF_A_STEP)
            try:
                found = self.convert(value)
            except ValueError:
                return None
        if not isinstance(found, self.kind) or self.length not in (None, len(found)):
            return None
        return tuple(found) if self.length is not None else found


@dataclass(frozen=True, slots=True, eq=False)
class _Nullable:
    """Marks an optional type whose null may be written as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._nulled, handler(source))

    def _nulled(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        return None if attempt.converts and value == "null" else value


@dataclass(frozen=True, slots=True, eq=False)
class _OneOf:
    """Marks a union: as it is, else what its JSON text stands for, else converted; each time in the declared order."""

    members: tuple[ValueType, ...]
    expected: str
    _adapters: list[TypeAdapter[Any]] = field(default_factory=list, compare=False, repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._chosen)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        members: list[Any] = []
        for member in self.members:
            schema = handler(TypeAdapter(member.type, config=STRICT).core_schema)
            members += [] if schema in members else [schema]
        return members[0] if len(members) == 1 else {"anyOf": members}

    def _chosen(self, value: object, info: Info) -> object:
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
            ordered = sorted(self.members, key=lambda member: member is NUMBER)
            self._adapters.extend([TypeAdapter(member.type, config=STRICT) for member in ordered])
        return self._adapters


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """Marks a type of values that JSON has only text for: checked by pydantic, handed over as the text it is."""

    kind: Any
    expected: str
    numbers_too: bool = False

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
            _adapter(self.kind).validate_python(text)
        except ValidationError:
            return attempt.refuse(self.expected)
        return text


@dataclass(frozen=True, slots=True, eq=False)
class _Constrained:
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
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            if first["type"] in _OURS:
                raise
            return attempt.refuse(excerpt(f"{self.expected}: {first['msg']}"))


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
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
        made = handler(core)
        properties = made.get("properties", {})
        schema: dict[str, Any] = {"type": "object"}
        if self.description:
            schema["description"] = self.description
        schema["properties"] = {each.name: _shown_member(each, properties[each.name]) for each in self.fields}
        schema["required"] = [each.name for each in self.fields if each.is_required]
        return schema if self.extra in (None, "ignore") else {**schema, "additionalProperties": self.extra == "allow"}

    def _checked(self, value: object, members: Callable[[object], Any], info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        found = value
        if attempt.converts and isinstance(value, str):
            attempt.work.spend(len(value) // _CHARACTERS_OF_A_STEP)
            try:
                found = coercion.object_from(value)
            except ValueError:
                return attempt.refuse(self.expected)
        if not isinstance(found, dict):
            return attempt.refuse(self.expected)
        attempt.work.spend(1 + len(self.fields))
        return members(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Inside:
    """Marks a type inside itself."""

    cell: Cell

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Shown:
        return {REFERENCE: self.cell.name}

    def _checked(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        try:
            return self.cell.opened().validate_python(value, context=attempt)
        except RecursionError:
            return attempt.refuse("nested less deeply")


def _omitted(*_: object) -> Shown:
    """What may be converted is for arguments only; the schema shows the type itself."""
    raise PydanticOmit


def _member(field: FieldType, handler: GetCoreSchemaHandler) -> core_schema.TypedDictField:
    schema = handler.generate_schema(field.type.type)
    if field.is_optional and not field.is_required and field.default is None:
        return core_schema.typed_dict_field(schema, required=False)
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


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _tries(value: object, attempt: Attempt) -> Iterator[tuple[object, bool]]:
    """What a union looks at, one after the other, and whether its members may convert it."""
    yield value, False
    if not attempt.converts:
        return
    if isinstance(value, str):
        attempt.work.spend(len(value) // _CHARACTERS_OF_A_STEP)
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


ANYTHING: Final = ValueType(Any, "anything", takes_text=True)
TEXT: Final = ValueType(Annotated[str, _Scalar("a string", coercion.text_from)], "a string", takes_text=True)
INTEGER: Final = ValueType(Annotated[int, _Scalar("an integer", coercion.integer_from)], "an integer")
NUMBER: Final = ValueType(Annotated[float, _Scalar("a number", coercion.number_from)], "a number")
BOOLEAN: Final = ValueType(Annotated[bool, _Scalar("true or false", coercion.boolean_from)], "true or false")
NULL: Final = ValueType(Annotated[None, _Scalar("null", coercion.null_from)], "null")


def array_of(item: ValueType, *, is_unique: bool = False, shows_text: bool = False) -> ValueType:
    """A list, whatever sequence it is declared as. `shows_text`: nothing is said of its items, so text is shown."""
    expected = "an array" if item is ANYTHING else excerpt(f"an array, each item {item.expected}")
    shown: list[tuple[str, JSON]] = [("uniqueItems", True)] if is_unique else []
    shown += [("items", {"type": "string"})] if shows_text else []
    container = _Container(expected, list, coercion.array_from, shown=tuple(shown))
    return ValueType(Annotated[GenericAlias(list, (item.type,)), container], expected, size=1 + item.size)


def fixed_array_of(items: list[ValueType]) -> ValueType:
    """A list with one type for each place."""
    expected = excerpt(f"an array of {len(items)}: {', '.join(item.expected for item in items)}")
    places = GenericAlias(tuple, tuple(item.type for item in items))
    container = _Container(expected, list, coercion.array_from, len(items))
    return ValueType(Annotated[places, container], expected, size=1 + sum(item.size for item in items))


def object_of(member: ValueType, *, shows_members: bool = True) -> ValueType:
    """A dict; its keys are strings, as they are in JSON."""
    expected = "an object" if member is ANYTHING else excerpt(f"an object, each value {member.expected}")
    left_out = None if shows_members else "additionalProperties"
    container = _Container(expected, dict, coercion.object_from, left_out=left_out)
    return ValueType(Annotated[GenericAlias(dict, (str, member.type)), container], expected, size=1 + member.size)


def record_of(
    fields: Sequence[FieldType],
    *,
    name: str = "",
    extra: Literal["forbid", "ignore", "allow"] | None = None,
    description: str | None = None,
) -> ValueType:
    """An object with these members; `extra` is what its source says about others, if it does."""
    members = f" with {name_list(each.name for each in fields)}" if fields else ""
    expected = excerpt(f"an object{f' {name}' if name else ''}{members}")
    record = _Record(tuple(fields), expected, extra, description)
    return ValueType(Annotated[Any, record], expected, size=1 + sum(each.type.size for each in fields))


def inside(cell: Cell) -> ValueType:
    """A type that contains itself."""
    return ValueType(Annotated[Any, _Inside(cell)], excerpt(f"an object {cell.name}"))


def text_for(kind: Any, expected: str, *, numbers_too: bool = False) -> ValueType:
    """Text that stands for a value of this kind; `numbers_too` are written out as text."""
    return ValueType(Annotated[Any, _Text(kind, expected, numbers_too)], expected, takes_text=True)


def constrained(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    """A type with what pydantic's `Field` says of it; raises ValueError when pydantic makes no sense of it."""
    try:
        annotated: Any = Annotated[
            base.type, Field(**constraints), _Constrained(base.expected, constraints.get("pattern"))
        ]
        TypeAdapter(annotated, config=STRICT)
    except (PydanticUserError, SchemaError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(excerpt(str(error).partition("\n")[0])) from None
    return replace(base, type=annotated, size=base.size + 1, members=())


def one_of_values(values: tuple[JSON, ...]) -> ValueType:
    """Exactly these values."""
    expected = excerpt(f"one of {', '.join(repr(value) for value in values)}")
    takes_text = any(isinstance(value, str) for value in values)
    typed = frozenset((type(value), value) for value in values)
    listed = tuple({(type(value), value): value for value in values}.values())
    return ValueType(Annotated[Any, _Choice(typed, listed, expected)], expected, takes_text=takes_text)


def one_of(members: list[ValueType]) -> ValueType:
    """A union; one that admits anything is anything, and one of a type and null keeps that type's own messages."""
    members = _distinct(inner for member in members for inner in member.members or (member,))
    if any(member is ANYTHING for member in members):
        return ANYTHING
    if len(members) == 1:
        return members[0]
    expected = excerpt(" or ".join(dict.fromkeys(member.expected for member in members)))
    others = [member for member in members if member is not NULL]
    if len(others) == 1 and len(members) > 1:
        return _nullable(others[0], expected)
    takes_text = any(member.takes_text for member in members)
    size = 1 + sum(member.size for member in members)
    union = Annotated[Any, _OneOf(tuple(members), expected)]
    return ValueType(union, expected, takes_text=takes_text, size=size, members=tuple(members))


def _distinct(members: Iterable[ValueType]) -> list[ValueType]:
    distinct: list[ValueType] = []
    for member in members:
        distinct += [] if any(member is each for each in distinct) else [member]
    return distinct


def _nullable(member: ValueType, expected: str) -> ValueType:
    optional: Any = member.type | None
    annotated = optional if member.takes_text else Annotated[optional, _Nullable()]
    return ValueType(annotated, expected, takes_text=member.takes_text, size=member.size + 1, members=(member, NULL))


def _converted_scalars(value: object) -> list[object]:
    converted: list[object] = []
    for convert in (coercion.integer_from, coercion.boolean_from, coercion.null_from):
        try:
            converted.append(convert(value))
        except ValueError:
            continue
    return converted
