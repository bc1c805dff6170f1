"""The types an annotation can mean, as pydantic types that coerce by the rules of `coercion` and by no others.

*One route.* The same types check arguments and give the JSON schema a model sees: pydantic writes it, and a mark on a
type says only what pydantic cannot know (a set is an array of unique items; an optional member is shown without null).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import GenericAlias
from typing import Annotated, Any, Final, Literal

from pydantic import (
    Field,
    PydanticUserError,
    TypeAdapter,
)
from pydantic_core import SchemaError

from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import excerpt, name_list
from sandbox.tools.types import coercion
from sandbox.tools.types.pydantic_types import (
    STRICT,
    ConstrainedType,
    ContainerType,
    FieldType,
    Hole,
    LiteralType,
    NullableType,
    RecursiveType,
    ScalarType,
    TextType,
    UnionType,
    ValueType,
)
from sandbox.tools.types.record_types import REFERENCE, RecordType, RecursiveUse, without_null
from sandbox.tools.types.validation_budget import Attempt, TooMuchWork, WorkBudget
from sandbox.tools.weighted_lru import WeightedLRU

__all__ = [
    "ANYTHING",
    "BOOLEAN",
    "INTEGER",
    "NULL",
    "NUMBER",
    "REFERENCE",
    "STRICT",
    "TEXT",
    "Attempt",
    "FieldType",
    "RecursiveType",
    "TooMuchWork",
    "ValueType",
    "WorkBudget",
    "array_of",
    "constrained",
    "fixed_array_of",
    "frame_of",
    "inside",
    "object_of",
    "one_of",
    "one_of_values",
    "record_of",
    "text_for",
    "without_itself",
    "without_null",
]

_LONGEST_COMMON: Final = 512
_REMARKS: Final = frozenset({"description", "examples", "json_schema_extra"})
"""What is said of a value that bounds nothing."""
_OF_NUMBERS: Final = frozenset({"gt", "ge", "lt", "le", "multiple_of"})

TEXT: Final = ValueType(
    Annotated[str, ScalarType("a string", coercion.text_from)], "a string", takes_text=True, is_common=True
)
INTEGER: Final = ValueType(
    Annotated[int, ScalarType("an integer", coercion.integer_from)], "an integer", is_common=True
)
NUMBER: Final = ValueType(
    Annotated[float, ScalarType("a number", coercion.number_from)], "a number", is_tried_last=True, is_common=True
)
BOOLEAN: Final = ValueType(
    Annotated[bool, ScalarType("true or false", coercion.boolean_from)], "true or false", is_common=True
)


def array_of(item: ValueType, *, is_unique: bool = False, shows_text: bool = False) -> ValueType:
    """A list, whatever sequence it is declared as. `shows_text`: nothing is said of its items, so text is shown."""
    return composed("array", [item], (is_unique, shows_text))


def fixed_array_of(items: Sequence[ValueType]) -> ValueType:
    """A list with one type for each place."""
    return composed("fixed array", items)


def object_of(member: ValueType, *, shows_members: bool = True) -> ValueType:
    """A dict; its keys are strings, as they are in JSON."""
    return composed("object", [member], shows_members)


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
    record = RecordType(tuple(fields), expected, extra, description)
    return ValueType(Annotated[Any, record], expected, size=1 + sum(each.type.size for each in fields))


def inside(cell: RecursiveType) -> ValueType:
    """A type that contains itself."""
    return ValueType(Annotated[Any, RecursiveUse(cell)], excerpt(f"an object {cell.name}"), cell=cell)


def without_itself(found: ValueType, cell: RecursiveType) -> ValueType:
    """A union without the member that is the union itself, which adds nothing to it."""
    members = [member for member in found.members if member.cell is not cell]
    return found if len(members) in (0, len(found.members)) else one_of(members)


def text_for(kind: Any, expected: str, *, numbers_too: bool = False) -> ValueType:
    """Text that stands for a value of this kind; `numbers_too` are written out as text."""
    return ValueType(Annotated[Any, TextType(kind, expected, numbers_too)], expected, takes_text=True)


def constrained(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    """A type with what pydantic's `Field` says of it; raises ValueError when pydantic makes no sense of it."""
    said = json.dumps(constraints, sort_keys=True)
    if not base.is_common or len(said) > _LONGEST_COMMON:
        return _constrained(base, constraints)
    return common(("constrained", base, said), lambda: _constrained(base, constraints))


def _constrained(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    """As pydantic has it, None is held against no bound, and the text of a number against those of the number."""
    bounds = {name: value for name, value in constraints.items() if name not in _REMARKS}
    bounded = _bounded_inside(base, bounds) if bounds else None
    if bounded is None:
        return _annotated(base, constraints)
    remarks = {name: value for name, value in constraints.items() if name in _REMARKS}
    return _annotated(bounded, remarks) if remarks else bounded


def _bounded_inside(base: ValueType, bounds: Mapping[str, Any]) -> ValueType | None:
    """The type with bounds on what it is made of; None for one that is bounded as a whole."""
    others = [member for member in base.members if member is not NULL]
    if others and len(others) < len(base.members):
        return one_of([constrained(one_of(others), bounds), NULL])
    form, *rest = getattr(base.type, "__metadata__", (None,))
    if not isinstance(form, TextType) or not form.numbers_too:
        return None
    kind = _understood(form.kind, bounds)
    of_text = replace(form, kind=kind, adapter=TypeAdapter(kind))
    return replace(base, type=Annotated[Any, of_text, *rest], size=base.size + 1, is_common=False)


def _annotated(base: ValueType, constraints: Mapping[str, Any]) -> ValueType:
    for name in _OF_NUMBERS & constraints.keys():
        _refuse_no_number(name, constraints[name])
    annotated = _understood(base.type, constraints, ConstrainedType(base.expected, constraints.get("pattern")))
    return replace(base, type=annotated, size=base.size + 1, members=(), is_common=False, form=None, parts=())


def _refuse_no_number(name: str, bound: object) -> None:
    """What pydantic itself refuses, where it knows that a number is meant."""
    if not isinstance(bound, int | float) or isinstance(bound, bool):
        raise ValueError(f"{name} is no number")
    if name == "multiple_of" and bound <= 0:
        raise ValueError("multiple_of is not above 0")


def _understood(kind: Any, constraints: Mapping[str, Any], *marks: ConstrainedType) -> Any:
    """The annotation for pydantic, or ValueError with what it says of it."""
    try:
        annotated: Any = Annotated[kind, Field(**constraints), *marks]
        TypeAdapter(annotated, config=STRICT if marks else None)
    except (PydanticUserError, SchemaError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"pydantic says: {excerpt(str(error).partition(chr(10))[0])}") from None
    return annotated


def one_of_values(values: tuple[JSON, ...]) -> ValueType:
    """Exactly these values."""
    typed = tuple((type(value), value) for value in values)
    is_short = sum(len(str(value)) for value in values) <= _LONGEST_COMMON
    return common(("values", typed), lambda: _values(values)) if is_short else _values(values)


def _values(values: tuple[JSON, ...]) -> ValueType:
    expected = excerpt(f"one of {', '.join(repr(value) for value in values)}")
    takes_text = any(isinstance(value, str) for value in values)
    typed = frozenset((type(value), value) for value in values)
    listed = tuple({(type(value), value): value for value in values}.values())
    return ValueType(Annotated[Any, LiteralType(typed, listed, expected)], expected, takes_text=takes_text)


def one_of(members: list[ValueType]) -> ValueType:
    """A union; one that admits anything is anything, and one of a type and null keeps that type's own messages."""
    members = _distinct(inner for member in members for inner in member.members or (member,))
    if any(member is ANYTHING for member in members):
        return ANYTHING
    if len(members) == 1:
        return members[0]
    return composed("union", members)


def _distinct(members: Iterable[ValueType]) -> list[ValueType]:
    distinct: list[ValueType] = []
    for member in members:
        distinct += [] if any(member is each for each in distinct) else [member]
    return distinct


# Types made of other types: lists, tuples, dicts and unions of them.
#
# What every source may name (`list[str]`, `dict[str, int] | None`) is made once and is then the same object for all of
# them, so that its schema is written once, too. Only what is small and holds nothing of one source is kept, and of that
# only what was used lately. A type that holds something of one source knows how it is made, so that its *frame*, the
# same
# form with a hole for each such part, is common again.


_LARGEST: Final = 16

ANYTHING: Final = ValueType(Any, "anything", takes_text=True, is_common=True)
NULL: Final = ValueType(Annotated[None, ScalarType("null", coercion.null_from)], "null", is_common=True)
_HOLES: Final = tuple(ValueType(Annotated[Any, Hole(number)], "anything", is_common=True) for number in range(8))

_kept: WeightedLRU[Hashable, ValueType] = WeightedLRU(most=1024, heaviest=4096)


def common(key: Hashable, make: Callable[[], ValueType]) -> ValueType:
    """The type that is known by this key: the same object as before, if it is small."""
    found = _kept.get(key)
    if found is None:
        found = make()
        if found.size <= _LARGEST:
            found = replace(found, is_common=True)
            _kept.put(key, found, weight=found.size)
    return found


def composed(form: str, parts: Sequence[ValueType], said: Hashable = None) -> ValueType:
    """What these parts make in one of the forms; `said` is what the form has to know beside."""
    if all(part.is_common for part in parts):
        return common((form, tuple(parts), said), lambda: _FORMS[form](parts, said))
    return replace(_FORMS[form](parts, said), form=(form, said), parts=tuple(parts))


def frame_of(found: ValueType) -> ValueType | None:
    """The same form with a hole for each part that is not common; None for what is not made of parts."""
    missing = sum(not part.is_common for part in found.parts)
    if found.form is None or missing > len(_HOLES):
        return None
    holes = iter(_HOLES)
    form, said = found.form
    return composed(form, [part if part.is_common else next(holes) for part in found.parts], said)


def _array(parts: Sequence[ValueType], said: Any) -> ValueType:
    (item,) = parts
    is_unique, shows_text = said
    expected = "an array" if item is ANYTHING else excerpt(f"an array, each item {item.expected}")
    shown: list[tuple[str, JSON]] = [("uniqueItems", True)] if is_unique else []
    shown += [("items", {"type": "string"})] if shows_text else []
    container = ContainerType(expected, list, coercion.array_from, shown=tuple(shown))
    return ValueType(Annotated[GenericAlias(list, (item.type,)), container], expected, size=1 + item.size)


def _fixed_array(items: Sequence[ValueType], said: Any) -> ValueType:  # noqa: ARG001  (as all forms)
    expected = excerpt(f"an array of {len(items)}: {', '.join(item.expected for item in items)}")
    places = GenericAlias(tuple, tuple(item.type for item in items))
    # One without places says what it holds all the same: providers take no array that does not.
    shown: tuple[tuple[str, JSON], ...] = () if items else (("items", {"type": "string"}),)
    container = ContainerType(expected, list, coercion.array_from, len(items), shown=shown)
    return ValueType(Annotated[places, container], expected, size=1 + sum(item.size for item in items))


def _object(parts: Sequence[ValueType], shows_members: Any) -> ValueType:
    (member,) = parts
    expected = "an object" if member is ANYTHING else excerpt(f"an object, each value {member.expected}")
    left_out = None if shows_members else "additionalProperties"
    container = ContainerType(expected, dict, coercion.object_from, left_out=left_out)
    return ValueType(Annotated[GenericAlias(dict, (str, member.type)), container], expected, size=1 + member.size)


def _union(members: Sequence[ValueType], said: Any) -> ValueType:  # noqa: ARG001
    expected = excerpt(" or ".join(dict.fromkeys(member.expected for member in members)))
    others = [member for member in members if member is not NULL]
    if len(others) == 1 and len(members) > 1:
        return _nullable(others[0], expected)
    takes_text = any(member.takes_text for member in members)
    size = 1 + sum(member.size for member in members)
    union = Annotated[Any, UnionType(tuple(members), expected)]
    return ValueType(union, expected, takes_text=takes_text, size=size, members=tuple(members))


def _nullable(member: ValueType, expected: str) -> ValueType:
    optional: Any = member.type | None
    annotated = optional if member.takes_text else Annotated[optional, NullableType()]
    return ValueType(annotated, expected, takes_text=member.takes_text, size=member.size + 1, members=(member, NULL))


_FORMS: Final[dict[str, Callable[[Sequence[ValueType], Any], ValueType]]] = {
    "array": _array,
    "fixed array": _fixed_array,
    "object": _object,
    "union": _union,
}
