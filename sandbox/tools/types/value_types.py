"""The types that an annotation can mean, as pydantic types that convert by the rules of `coercion` and no others.

The same types check arguments and give the JSON schema that a model sees. Pydantic writes that schema; the classes in
`pydantic_types` and `record_types` add what pydantic cannot know, such as that a set is an array of unique items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import GenericAlias
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PydanticUserError, TypeAdapter
from pydantic_core import SchemaError

from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import excerpt, name_list
from sandbox.tools.types import coercion
from sandbox.tools.types.json_schemas import REFERENCE, constrained_schema, record_schema, union_schema, values_schema
from sandbox.tools.types.pydantic_types import (
    STRICT,
    ConstrainedType,
    ContainerType,
    FieldType,
    LiteralType,
    NullableType,
    RecordType,
    RecursiveType,
    RecursiveUse,
    ScalarType,
    TextType,
    UnionType,
    ValueType,
)

# Keywords of `Field` that describe a value and bound nothing.
_REMARKS: Final = frozenset({"description", "examples", "json_schema_extra"})
_NUMBER_BOUNDS: Final = frozenset({"gt", "ge", "lt", "le", "multiple_of"})


ANYTHING: Final = ValueType(Any, "anything", {}, takes_text=True)
NULL: Final = ValueType(Annotated[None, ScalarType("null", coercion.null_from)], "null", {"type": "null"})
TEXT: Final = ValueType(
    Annotated[str, ScalarType("a string", coercion.text_from)], "a string", {"type": "string"}, takes_text=True
)
INTEGER: Final = ValueType(
    Annotated[int, ScalarType("an integer", coercion.integer_from)], "an integer", {"type": "integer"}
)
NUMBER: Final = ValueType(
    Annotated[float, ScalarType("a number", coercion.number_from)], "a number", {"type": "number"}, is_tried_last=True
)
BOOLEAN: Final = ValueType(
    Annotated[bool, ScalarType("true or false", coercion.boolean_from)], "true or false", {"type": "boolean"}
)
_TEXT_ITEMS: Final = {"items": {"type": "string"}}


def array_of(item: ValueType, *, is_unique: bool = False, shows_text: bool = False) -> ValueType:
    """Return the type of a list; with `shows_text`, items of any type are shown to a model as strings."""
    expected = "an array" if item is ANYTHING else excerpt(f"an array, each item {item.expected}")
    schema: dict[str, Any] = {"type": "array", "items": item.schema}
    schema |= {"uniqueItems": True} if is_unique else {}
    schema |= _TEXT_ITEMS if shows_text else {}
    container = ContainerType(expected, list, coercion.array_from)
    return ValueType(Annotated[GenericAlias(list, (item.type,)), container], expected, schema, size=1 + item.size)


def fixed_array_of(items: Sequence[ValueType]) -> ValueType:
    """Return the type of a list with one type for each position."""
    expected = excerpt(f"an array of {len(items)}: {', '.join(item.expected for item in items)}")
    positions = GenericAlias(tuple, tuple(item.type for item in items))
    schema = {"type": "array", "maxItems": len(items), "minItems": len(items)}
    # Providers refuse an array without `items`, also one that has no positions.
    schema |= {"prefixItems": [item.schema for item in items]} if items else _TEXT_ITEMS
    container = ContainerType(expected, list, coercion.array_from, len(items))
    return ValueType(Annotated[positions, container], expected, schema, size=1 + sum(item.size for item in items))


def object_of(member: ValueType, *, shows_members: bool = True) -> ValueType:
    """Return the type of a dict whose keys are strings, as in JSON."""
    expected = "an object" if member is ANYTHING else excerpt(f"an object, each value {member.expected}")
    schema: dict[str, Any] = {"type": "object"}
    schema |= {"additionalProperties": True if member is ANYTHING else member.schema} if shows_members else {}
    members = GenericAlias(dict, (str, member.type))
    container = ContainerType(expected, dict, coercion.object_from)
    return ValueType(Annotated[members, container], expected, schema, size=1 + member.size)


def record_of(
    fields: Sequence[FieldType],
    *,
    name: str = "",
    extra: Literal["forbid", "ignore", "allow"] | None = None,
    description: str | None = None,
) -> ValueType:
    """Return the type of an object with these members; `extra` is the source's rule for other members, if any."""
    members = f" with {name_list(each.name for each in fields)}" if fields else ""
    expected = excerpt(f"an object{f' {name}' if name else ''}{members}")
    record = Annotated[Any, RecordType(tuple(fields), expected, extra)]
    schema = record_schema(fields, extra=extra, description=description)
    return ValueType(record, expected, schema, size=1 + sum(each.type.size for each in fields))


def recursive_use(recursive: RecursiveType) -> ValueType:
    """Return the type for a place where a type contains itself."""
    expected, schema = excerpt(f"an object {recursive.name}"), {REFERENCE: recursive.name}
    return ValueType(Annotated[Any, RecursiveUse(recursive)], expected, schema, recursive=recursive)


def without_itself(found: ValueType, recursive: RecursiveType) -> ValueType:
    """Return a union without the member that is the union itself, which adds nothing to it."""
    members = [member for member in found.members if member.recursive is not recursive]
    return found if len(members) in (0, len(found.members)) else one_of(members)


def text_for(kind: Any, expected: str, *, numbers_too: bool = False) -> ValueType:
    """Return the type of texts that stand for a value of this kind; `numbers_too` also takes numbers as text."""
    text = TextType(kind, expected, numbers_too)
    return ValueType(Annotated[Any, text], expected, text.schema(), takes_text=True)


def one_of_values(values: tuple[JSON, ...]) -> ValueType:
    """Return the type of exactly these values."""
    expected = excerpt(f"one of {', '.join(repr(value) for value in values)}")
    takes_text = any(isinstance(value, str) for value in values)
    listed = {(type(value), value): value for value in values}
    schema = values_schema(tuple(listed.values()))
    return ValueType(Annotated[Any, LiteralType(frozenset(listed), expected)], expected, schema, takes_text=takes_text)


def one_of(members: list[ValueType]) -> ValueType:
    """Return a union; one with `ANYTHING` is `ANYTHING`, and one of a type and null keeps the messages of that type."""
    flat = _remove_duplicates(inner for member in members for inner in member.members or (member,))
    if any(member is ANYTHING for member in flat):
        return ANYTHING
    if len(flat) == 1:
        return flat[0]
    expected = excerpt(" or ".join(dict.fromkeys(member.expected for member in flat)))
    others = [member for member in flat if member is not NULL]
    if len(others) == 1:
        return _nullable(others[0], expected)
    takes_text = any(member.takes_text for member in flat)
    size = 1 + sum(member.size for member in flat)
    union, schema = Annotated[Any, UnionType(tuple(flat), expected)], union_schema([member.schema for member in flat])
    return ValueType(union, expected, schema, takes_text=takes_text, size=size, members=tuple(flat))


def _nullable(member: ValueType, expected: str) -> ValueType:
    optional: Any = member.type | None
    annotated = optional if member.takes_text else Annotated[optional, NullableType()]
    schema, size = union_schema([member.schema, NULL.schema]), member.size + 1
    return ValueType(annotated, expected, schema, takes_text=member.takes_text, size=size, members=(member, NULL))


def _remove_duplicates(members: Iterable[ValueType]) -> list[ValueType]:
    return list({id(member): member for member in members}.values())


def constrain(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    """Return a type with the constraints of pydantic's `Field`; raise ValueError if pydantic refuses them.

    As in pydantic, no bound applies to None, and the text of a number is held against the bounds of the number.
    """
    bounds = {name: value for name, value in constraints.items() if name not in _REMARKS}
    bounded = _bounded_inside(base, bounds) if bounds else None
    if bounded is None:
        return _annotate(base, constraints)
    remarks = {name: value for name, value in constraints.items() if name in _REMARKS}
    return _annotate(bounded, remarks) if remarks else bounded


def _bounded_inside(base: ValueType, bounds: Mapping[str, Any]) -> ValueType | None:
    """Return the type with bounds on its parts, or None if the bounds apply to the type as a whole."""
    others = [member for member in base.members if member is not NULL]
    if others and len(others) < len(base.members):
        return one_of([constrain(one_of(others), bounds), NULL])
    text, *rest = getattr(base.type, "__metadata__", (None,))
    if not isinstance(text, TextType) or not text.numbers_too:
        return None
    bounded_text = replace(text, kind=_pydantic_type(text.kind, bounds), is_bounded=True)
    return replace(base, type=Annotated[Any, bounded_text, *rest], size=base.size + 1)


def _annotate(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    for name in _NUMBER_BOUNDS & constraints.keys():
        _refuse_odd_bound(name, constraints[name])
    annotated = _pydantic_type(base.type, constraints, ConstrainedType(base.expected))
    schema = constrained_schema(base.schema, constraints)
    return replace(base, type=annotated, schema=schema, size=base.size + 1, members=())


def _refuse_odd_bound(name: str, bound: object) -> None:
    # Pydantic refuses these bounds itself only where it knows that the value is a number.
    if not isinstance(bound, int | float) or isinstance(bound, bool):
        raise ValueError(f"{name} is not a number")
    if name == "multiple_of" and bound <= 0:
        raise ValueError("multiple_of is not above 0")


def _pydantic_type(kind: Any, constraints: Mapping[str, Any], *classes: ConstrainedType) -> Any:
    """Return the annotated type; raise ValueError with the message of pydantic if pydantic refuses it."""
    try:
        annotated: Any = Annotated[kind, Field(**constraints), *classes]
        TypeAdapter(annotated, config=STRICT if classes else None)
    except (PydanticUserError, SchemaError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"pydantic says: {excerpt(str(error).partition(chr(10))[0])}") from None
    return annotated
