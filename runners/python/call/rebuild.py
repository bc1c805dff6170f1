"""Arguments rebuilt as the tool's annotations declare: models, dataclasses, enums, dates, paths, tuples, sets.

The arguments arrive as JSON that the engine has checked against the source. Here the annotations are real: the tool's
module has run, and its classes exist. A value without an annotation, or with one that this Python cannot evaluate,
stays as it came. A string for a parameter that takes strings is never touched.

The members of a union are tried as declared, and the first that the value fits is taken. A value that already is one of
the members is not converted into another. If there are pydantic models among the members, pydantic itself chooses.

A value that does not fit raises a `Misfit`, with the path that leads to it. Imports wait inside of functions: most
calls take plain JSON and never come here, and the others have imported most of the modules themselves.
"""

from __future__ import annotations

import sys

from box import fast_json
from call.annotations import (
    admits_none,
    arguments_of,
    bare,
    defaults_of_fields,
    hints_of,
    is_literal,
    is_union,
    kind_of,
    reader_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAX_DEPTH = 220
_MAX_MESSAGE = 300
_MAX_PROBLEMS = 100
_PLAIN = (str, int, float, bool, type(None))
_REFUSALS = (ValueError, TypeError, AssertionError, ArithmeticError)
"""The errors by which a class refuses a value."""
_ARRAYS = frozenset(("list", "Sequence", "MutableSequence", "Iterable", "Collection", "Container", "Reversible"))
_SETS = {"set": set, "Set": set, "MutableSet": set, "frozenset": frozenset}
_OBJECTS = frozenset(("dict", "Mapping", "MutableMapping"))
_MISSING = "field required"
"""The message of pydantic about a missing field."""
_NUMBERS: dict[Any, Callable[[str], Any]] = {int: int, float: float}


class Misfit(Exception):
    """A value that does not fit its annotation: one problem or more, each a path and a message."""

    def __init__(self, problems: list[tuple[list[Any], str]]) -> None:
        super().__init__(problems)
        self.problems = problems

    @classmethod
    def here(cls, message: str) -> Misfit:
        return cls([([], message[:_MAX_MESSAGE])])

    def under(self, step: Any) -> Misfit:
        """Return the same problems, seen from one level further out."""
        return Misfit([([step, *path], message) for path, message in self.problems])


def rebuild_arguments(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments, each rebuilt for its parameter; raise a `Misfit` with the problems of all of them."""
    hints = hints_of(function)
    given = _each(arguments, lambda name, value: rebuild(value, hints[name]) if name in hints else value)
    return dict(defaults_of_fields(function), **given)


def rebuild_mapping(function: Any, arguments: dict[str, Any]) -> Any:
    """Return the arguments as the one mapping that the function takes, in its first parameter."""
    hints = {name: hint for name, hint in hints_of(function).items() if name != "return"}
    return rebuild(arguments, next(iter(hints.values()))) if hints else arguments


def rebuild(value: Any, hint: Any) -> Any:
    """Return `value` rebuilt as `hint` declares."""
    return _Rebuilder().rebuild(value, hint, 0)


class _Rebuilder:
    """Rebuilds one value; while `choosing` between the members of a union, it refuses every value that does not fit."""

    def __init__(self, *, choosing: bool = False) -> None:
        self._choosing = choosing

    def rebuild(self, value: Any, hint: Any, depth: int) -> Any:
        whole, hint = hint, bare(hint)
        if depth > _MAX_DEPTH:
            raise Misfit.here("is nested too deeply")
        if is_union(hint):
            return self._one_of(value, hint, whole, depth)
        if is_literal(hint):
            return _literal(value, arguments_of(hint))
        kind = kind_of(hint)
        if kind is None or kind in _PLAIN:
            return self._plain(value, type(None) if kind is None else kind)
        if not isinstance(kind, type) or (value is None and not self._choosing):
            return value
        build = next((build for is_one, build in _BUILDERS if is_one(kind)), _unchanged)
        return build(self, value, hint, depth + 1)

    def _plain(self, value: Any, kind: type) -> Any:
        """Return a plain value; JSON may have 3 for 3.0."""
        if kind is float and type(value) is int:
            return float(value)
        if self._choosing and type(value) is not kind:
            raise Misfit.here("is not %s" % kind.__name__)
        return value

    def _one_of(self, value: Any, hint: Any, whole: Any, depth: int) -> Any:
        members = [bare(member) for member in arguments_of(hint)]
        if type(value) in members or (value is None and None in members):
            return value
        others = [member for member in members if member not in (None, type(None))]
        if len(others) == 1 and not self._choosing:
            return self.rebuild(value, others[0], depth + 1)
        if any(_is_model(member) for member in others):
            return _one_of_models(value, whole, others, depth)
        return _first_that_fits(value, others, depth)

    # Containers

    def build_array(self, value: Any, hint: Any, depth: int) -> Any:
        return self._items(value, arguments_of(hint)[:1] * len(_array(value)), depth)

    def build_tuple(self, value: Any, hint: Any, depth: int) -> Any:
        kinds = arguments_of(hint)
        if not kinds:
            return tuple(_array(value))
        if kinds[-1] is Ellipsis:
            return tuple(self._items(value, kinds[:1] * len(_array(value)), depth))
        if len(kinds) != len(_array(value)):
            raise Misfit.here("must have %d items" % len(kinds))
        return tuple(self._items(value, kinds, depth))

    def build_set(self, value: Any, hint: Any, depth: int) -> Any:
        kind = _SETS[_known_as(kind_of(hint))]
        return _make(lambda: kind(self.build_array(value, hint, depth)))

    def build_object(self, value: Any, hint: Any, depth: int) -> Any:
        kinds = arguments_of(hint)
        if len(kinds) != 2:
            return _object(value)
        rebuilt = _each(_object(value), lambda _, member: self.rebuild(member, kinds[1], depth))
        return {_key(name, bare(kinds[0])): member for name, member in rebuilt.items()}

    def _items(self, value: Any, kinds: tuple[Any, ...], depth: int) -> list[Any]:
        """Return an item for each kind, or all items unchanged if there are no kinds."""
        items = _array(value)
        if not kinds:
            return items
        numbered = dict(enumerate(items))
        return list(_each(numbered, lambda place, item: self.rebuild(item, kinds[place], depth)).values())

    # Classes

    def build_dataclass(self, value: Any, hint: Any, depth: int) -> Any:
        kind = kind_of(hint)
        fields = {name: field for name, field in kind.__dataclass_fields__.items() if _is_given(field)}
        needed = [name for name, field in fields.items() if not _has_default(field)]
        members = self._members(_object(value), kind, set(fields), needed, depth)
        return _make(lambda: kind(**members))

    def build_named_tuple(self, value: Any, hint: Any, depth: int) -> Any:
        kind = kind_of(hint)
        given = dict(zip(kind._fields, value)) if isinstance(value, list) else _object(value)
        needed = [name for name in kind._fields if name not in kind._field_defaults]
        members = self._members(given, kind, set(kind._fields), needed, depth)
        return _make(lambda: kind(**members))

    def build_typed_dict(self, value: Any, hint: Any, depth: int) -> Any:
        kind = kind_of(hint)
        required: set[str] = set(getattr(kind, "__required_keys__", ()))  # since Python 3.9
        names = required.union(getattr(kind, "__optional_keys__", value))
        return self._members(_object(value), kind, names, sorted(required), depth)

    def _members(
        self, value: dict[str, Any], kind: type, names: set[str], needed: list[str], depth: int
    ) -> dict[str, Any]:
        """Return the members of a class by name; a needed member that is missing and may be None becomes None."""
        hints = hints_of(kind)
        missing = [name for name in needed if name not in value]
        absent = [name for name in missing if not admits_none(hints.get(name))]
        unknown = [name for name in value if name not in names]
        if absent or unknown:
            problems = [([name], "is required and was not given") for name in absent]
            raise Misfit([*problems, *(([name], "%s has nothing of this name" % kind.__name__) for name in unknown)])
        whole = dict(value, **dict.fromkeys(missing))
        return _each(whole, lambda name, member: self.rebuild(member, hints.get(name, object), depth))


def _one_of_models(value: Any, hint: Any, members: list[Any], depth: int) -> Any:
    """Let pydantic choose; try the members in turn if something is missing that may be None."""
    try:
        return _validate(value, hint)
    except Misfit:
        return _first_that_fits(value, members, depth)


def _first_that_fits(value: Any, members: list[Any], depth: int) -> Any:
    found: list[str] = []
    for member in sorted(members, key=lambda member: member is float):  # an integer is one first
        try:
            return _Rebuilder(choosing=True).rebuild(value, member, depth + 1)
        except Misfit as misfit:
            found += [message for _, message in misfit.problems]
    raise Misfit.here("fits no member of the union: it %s" % "; it ".join(dict.fromkeys(found)))


def _each(values: dict[Any, Any], make: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    """Return the result of `make` for each value, or raise all problems together."""
    made, problems = {}, []
    for name, value in values.items():
        try:
            made[name] = make(name, value)
        except Misfit as misfit:
            problems += misfit.under(name).problems
            if len(problems) >= _MAX_PROBLEMS:
                break
    if problems:
        raise Misfit(problems[:_MAX_PROBLEMS])
    return made


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Misfit.here("is not an array")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit.here("is not an object")
    return value


def _key(name: str, hint: Any) -> Any:
    """Rebuild a key, which is text in JSON."""
    if hint in _NUMBERS:
        return _make(lambda: _NUMBERS[hint](name))
    return rebuild(name, hint)


def _literal(value: Any, members: tuple[Any, ...]) -> Any:
    for member in members:
        if type(member) is type(value) and member == value:
            return value
    for member in members:
        if type(member) not in _PLAIN and _as_json(getattr(member, "value", member)) == value:
            return member
    raise Misfit.here("is not one of %s" % ", ".join(repr(member) for member in members))


def _enum(_: _Rebuilder, value: Any, hint: Any, __: int) -> Any:
    for member in hint:
        plain = _as_json(member.value)
        if type(plain) is type(value) and plain == value:
            return member
    return _make(lambda: hint(value))  # flags, and enums with a `_missing_` method


def _as_json(value: Any) -> Any:
    """Return the value as it would arrive here, through JSON."""
    try:
        return fast_json.read(fast_json.write(value, default=str))
    except ValueError:
        return str(value)


def _scalar(_: _Rebuilder, value: Any, hint: Any, __: int) -> Any:
    kind = kind_of(hint)
    read = reader_of(kind)
    assert read is not None
    return _make(lambda: read(value, kind))


def _model(_: _Rebuilder, value: Any, hint: Any, __: int) -> Any:
    return _by_pydantic(value, hint)


def _by_pydantic(value: Any, hint: Any) -> Any:
    """Let pydantic read the JSON; a needed field that is missing and may be None becomes None, as in the schema."""
    try:
        return _validate(value, hint)
    except Misfit as misfit:
        filled = _with_nulls(value, misfit)
        if filled is None:
            raise
        try:
            return _validate(filled, hint)
        except Misfit:
            raise misfit from None


def _with_nulls(value: Any, misfit: Misfit) -> Any:
    """Return a copy with null at each missing place; None if nothing is missing, or a place does not exist."""
    missing = [path for path, message in misfit.problems if message.lower() == _MISSING and path]
    if not missing:
        return None
    filled: Any = fast_json.read(fast_json.write(value))
    for *outer, name in missing:
        place = filled
        for step in outer:
            is_there = isinstance(place, dict) and step in place
            if not is_there and not (isinstance(place, list) and isinstance(step, int) and step < len(place)):
                return None
            place = place[step]
        if not isinstance(place, dict) or name in place:
            return None
        place[name] = None
    return filled


def _validate(value: Any, hint: Any) -> Any:
    """Validate a value with pydantic 1 or 2."""
    text = fast_json.write(value)
    if hasattr(hint, "model_validate_json"):
        return _make(lambda: hint.model_validate_json(text))
    pydantic: Any = sys.modules["pydantic"]
    if hasattr(pydantic, "TypeAdapter"):
        return _make(lambda: pydantic.TypeAdapter(hint).validate_json(text))
    return _make(lambda: pydantic.parse_raw_as(hint, text))


def _unchanged(_: _Rebuilder, value: Any, __: Any, ___: int) -> Any:
    return value


def _make(make: Callable[[], Any]) -> Any:
    """Return the new object, or raise the class's refusal as a `Misfit`."""
    try:
        return make()
    except _REFUSALS as error:
        raise Misfit(_problems_of(error)) from None


def _problems_of(error: Exception) -> list[tuple[list[Any], str]]:
    """Return the problems of an error; pydantic lists all of them, each with its path."""
    try:
        each: Any = getattr(error, "errors")()  # noqa: B009  (only pydantic's have it)
        return [(list(problem["loc"]), str(problem["msg"])[:_MAX_MESSAGE]) for problem in each]
    except Exception:
        return [([], ("%s" % error or type(error).__name__)[:_MAX_MESSAGE])]


def _is_given(field: Any) -> bool:
    """Whether a dataclass takes the field as an argument."""
    return bool(field.init) and field._field_type.name != "_FIELD_CLASSVAR"


def _has_default(field: Any) -> bool:
    import dataclasses

    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and "pydantic" in sys.modules and issubclass(kind, sys.modules["pydantic"].BaseModel)


def _is_of_pydantic(kind: Any) -> bool:
    """Whether a class is one of pydantic's own, such as secrets and addresses; mail addresses are plain text there."""
    is_its = kind.__module__.partition(".")[0] == "pydantic" and hasattr(kind, "__get_pydantic_core_schema__")
    return bool(is_its and kind.__name__ != "EmailStr")


def _known_as(kind: type) -> str:
    """Return the name of a builtin or abstract container; an empty text for other classes with such a name."""
    return kind.__name__ if kind.__module__ in ("builtins", "collections.abc") else ""


def _is_enum(kind: Any) -> bool:
    import enum

    return isinstance(kind, enum.EnumMeta)


_BUILDERS: tuple[tuple[Callable[[Any], bool], Callable[[_Rebuilder, Any, Any, int], Any]], ...] = (
    (_is_model, _model),
    (_is_enum, _enum),
    (lambda kind: hasattr(kind, "__dataclass_fields__"), _Rebuilder.build_dataclass),
    (lambda kind: issubclass(kind, dict) and hasattr(kind, "__total__"), _Rebuilder.build_typed_dict),
    (lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"), _Rebuilder.build_named_tuple),
    (lambda kind: kind is tuple, _Rebuilder.build_tuple),
    (lambda kind: _known_as(kind) in _SETS, _Rebuilder.build_set),
    (lambda kind: _known_as(kind) in _ARRAYS, _Rebuilder.build_array),
    (lambda kind: _known_as(kind) in _OBJECTS, _Rebuilder.build_object),
    (lambda kind: reader_of(kind) is not None, _scalar),
    (_is_of_pydantic, _model),
)
