"""Types made of other types: lists, tuples, dicts and unions of them.

What every source may name (`list[str]`, `dict[str, int] | None`) is made once and is then the same object for all of
them, so that its schema is written once, too. Only what is small and holds nothing of one source is kept, and of that
only what was used lately. A type that holds something of one source knows how it is made, so that its *frame*, the same
form with a hole for each such part, is common again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from types import GenericAlias
from typing import Annotated, Any, Final

from sandbox.tools import coercion
from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import excerpt
from sandbox.tools.type_constraints import Container, Hole, Nullable, OneOf, Scalar, ValueType
from sandbox.tools.weighted_lru import Recent

_LARGEST: Final = 16

ANYTHING: Final = ValueType(Any, "anything", takes_text=True, is_common=True)
NULL: Final = ValueType(Annotated[None, Scalar("null", coercion.null_from)], "null", is_common=True)
_HOLES: Final = tuple(ValueType(Annotated[Any, Hole(number)], "anything", is_common=True) for number in range(8))

_kept: Recent[Hashable, ValueType] = Recent(most=1024, heaviest=4096)


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
    container = Container(expected, list, coercion.array_from, shown=tuple(shown))
    return ValueType(Annotated[GenericAlias(list, (item.type,)), container], expected, size=1 + item.size)


def _fixed_array(items: Sequence[ValueType], said: Any) -> ValueType:  # noqa: ARG001  (as all forms)
    expected = excerpt(f"an array of {len(items)}: {', '.join(item.expected for item in items)}")
    places = GenericAlias(tuple, tuple(item.type for item in items))
    # One without places says what it holds all the same: providers take no array that does not.
    shown: tuple[tuple[str, JSON], ...] = () if items else (("items", {"type": "string"}),)
    container = Container(expected, list, coercion.array_from, len(items), shown=shown)
    return ValueType(Annotated[places, container], expected, size=1 + sum(item.size for item in items))


def _object(parts: Sequence[ValueType], shows_members: Any) -> ValueType:
    (member,) = parts
    expected = "an object" if member is ANYTHING else excerpt(f"an object, each value {member.expected}")
    left_out = None if shows_members else "additionalProperties"
    container = Container(expected, dict, coercion.object_from, left_out=left_out)
    return ValueType(Annotated[GenericAlias(dict, (str, member.type)), container], expected, size=1 + member.size)


def _union(members: Sequence[ValueType], said: Any) -> ValueType:  # noqa: ARG001
    expected = excerpt(" or ".join(dict.fromkeys(member.expected for member in members)))
    others = [member for member in members if member is not NULL]
    if len(others) == 1 and len(members) > 1:
        return _nullable(others[0], expected)
    takes_text = any(member.takes_text for member in members)
    size = 1 + sum(member.size for member in members)
    union = Annotated[Any, OneOf(tuple(members), expected)]
    return ValueType(union, expected, takes_text=takes_text, size=size, members=tuple(members))


def _nullable(member: ValueType, expected: str) -> ValueType:
    optional: Any = member.type | None
    annotated = optional if member.takes_text else Annotated[optional, Nullable()]
    return ValueType(annotated, expected, takes_text=member.takes_text, size=member.size + 1, members=(member, NULL))


_FORMS: Final[dict[str, Callable[[Sequence[ValueType], Any], ValueType]]] = {
    "array": _array,
    "fixed array": _fixed_array,
    "object": _object,
    "union": _union,
}
