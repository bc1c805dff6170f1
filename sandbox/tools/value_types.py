"""The types an annotation can mean, as pydantic types that coerce by the rules of `coercion` and by no others.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from sandbox.tools import coercion
from sandbox.tools.excerpt import excerpt
from sandbox.tools.plain_json import JSON, json_from_text

MAX_REFUSALS: Final = 100
MAX_WORK: Final = 3_000_000
_CHARACTERS_OF_A_STEP: Final = 64
STRICT: Final = ConfigDict(strict=True, extra="forbid")
_LONGEST_TEXT_OF_A_SCALAR: Final = 64

Info: TypeAlias = core_schema.ValidationInfo[Any]


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


@dataclass(frozen=True, slots=True)
class ValueType:
    """What an annotation means: the type for pydantic, and its name in a message."""

    type: Any
    expected: str
    takes_text: bool = False


@dataclass(frozen=True, slots=True)
class _Scalar:
    """Marks a type whose values are taken as they are or converted."""

    expected: str
    convert: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        converted = core_schema.with_info_plain_validator_function(self._converted)
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


@dataclass(frozen=True, slots=True)
class _Choice:
    """Marks a literal type. Pydantic takes True for 1, so the values are compared here, with their types."""

    values: frozenset[tuple[type, JSON]]
    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._chosen)

    def _chosen(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        candidates = [value, *_converted_scalars(value)] if attempt.converts else [value]
        for candidate in candidates:
            if isinstance(candidate, str | int | None) and (type(candidate), candidate) in self.values:
                return candidate
        return attempt.refuse(self.expected)


@dataclass(frozen=True, slots=True)
class _Container:
    """Marks a container type: what its value is made into before its members are checked, and how many it has."""

    expected: str
    kind: type[list[JSON]] | type[dict[str, JSON]]
    convert: Callable[[object], object]
    length: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._checked, handler(source))

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


@dataclass(frozen=True, slots=True)
class _Nullable:
    """Marks an optional type whose null may be written as text."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._nulled, handler(source))

    def _nulled(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        return None if attempt.converts and value == "null" else value


@dataclass(frozen=True, slots=True)
class _OneOf:
    """Marks a union: as it is, else what its JSON text stands for, else converted; each time in the declared order."""

    members: tuple[TypeAdapter[Any], ...]
    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._chosen)

    def _chosen(self, value: object, info: Info) -> object:
        attempt: Attempt = info.context
        if attempt.is_lost:
            return None
        for candidate, converts in _tries(value, attempt):
            for member in self.members:
                attempt.work.spend(1)
                try:
                    inner = Attempt(attempt.work, converts=converts, refusals_left=1)
                    return member.validate_python(candidate, context=inner)
                except ValidationError:
                    continue
        return attempt.refuse(self.expected)


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


def array_of(item: ValueType) -> ValueType:
    """A list, whatever sequence it is declared as."""
    expected = "an array" if item is ANYTHING else excerpt(f"an array, each item {item.expected}")
    return ValueType(
        Annotated[GenericAlias(list, (item.type,)), _Container(expected, list, coercion.array_from)], expected
    )


def fixed_array_of(items: list[ValueType]) -> ValueType:
    """A list with one type for each place."""
    expected = excerpt(f"an array of {len(items)}: {', '.join(item.expected for item in items)}")
    places = GenericAlias(tuple, tuple(item.type for item in items))
    return ValueType(Annotated[places, _Container(expected, list, coercion.array_from, len(items))], expected)


def object_of(member: ValueType) -> ValueType:
    """A dict; its keys are strings, as they are in JSON."""
    expected = "an object" if member is ANYTHING else excerpt(f"an object, each value {member.expected}")
    return ValueType(
        Annotated[GenericAlias(dict, (str, member.type)), _Container(expected, dict, coercion.object_from)], expected
    )


def one_of_values(values: tuple[JSON, ...]) -> ValueType:
    """Exactly these values."""
    expected = excerpt(f"one of {', '.join(repr(value) for value in values)}")
    takes_text = any(isinstance(value, str) for value in values)
    typed = frozenset((type(value), value) for value in values)
    return ValueType(Annotated[Literal[values], _Choice(typed, expected)], expected, takes_text=takes_text)


def one_of(members: list[ValueType]) -> ValueType:
    """A union; one that admits anything is anything, and one of a type and null keeps that type's own messages."""
    if any(member is ANYTHING for member in members):
        return ANYTHING
    expected = excerpt(" or ".join(dict.fromkeys(member.expected for member in members)))
    others = [member for member in members if member is not NULL]
    if len(others) == 1 and len(members) > 1:
        return _nullable(others[0], expected)
    # An integer is a number too, so a float among the members is tried last: 5 stays 5 for `float | int`.
    ordered = sorted(members, key=lambda member: member is NUMBER)
    adapters = tuple(TypeAdapter(member.type, config=STRICT) for member in ordered)
    takes_text = any(member.takes_text for member in members)
    return ValueType(Annotated[Any, _OneOf(adapters, expected)], expected, takes_text=takes_text)


def _nullable(member: ValueType, expected: str) -> ValueType:
    optional: Any = member.type | None
    annotated = optional if member.takes_text else Annotated[optional, _Nullable()]
    return ValueType(annotated, expected, takes_text=member.takes_text)


def _converted_scalars(value: object) -> list[object]:
    converted: list[object] = []
    for convert in (coercion.integer_from, coercion.boolean_from, coercion.null_from):
        try:
            converted.append(convert(value))
        except ValueError:
            continue
    return converted
