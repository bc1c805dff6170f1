"""What a tool's annotations are in its own process: evaluated where they can be, and bare of what only adds to them;
and what its parameters are by default, where that is said like an annotation."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_LAYERS = 50
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a function or class by name; without those that this Python cannot evaluate."""
    import typing

    read: Any = typing.get_type_hints
    try:
        found: dict[str, Any] = read(thing, include_extras=True) if sys.version_info >= (3, 9) else read(thing)
        return found
    except Exception:
        return dict(_one_by_one(thing))


def _one_by_one(thing: Any) -> Iterator[tuple[str, Any]]:
    for kind in _annotated(thing):
        names = getattr(kind, "__globals__", None) or vars(sys.modules.get(getattr(kind, "__module__", ""), sys))
        try:
            annotations = dict(getattr(kind, "__annotations__", None) or {})
        except Exception:  # a Python that evaluates all of them when it is asked for them
            continue
        for name, annotation in annotations.items():
            try:
                yield name, _evaluated(annotation, dict(names))
            except Exception:
                continue


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """In the tool's own process, where all of its code runs, so does this."""
    return eval(annotation, names) if isinstance(annotation, str) else annotation  # noqa: S307


def _annotated(thing: Any) -> list[Any]:
    """What the annotations are on: a class has those of its bases, too, which its own come after."""
    if isinstance(thing, type):
        return list(reversed(thing.__mro__))
    return [getattr(thing, "__func__", thing)]


def defaults_of_fields(function: Any) -> dict[str, Any]:
    """What parameters are by default that have a pydantic `Field(3, ge=1)` in the place of one."""
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, values = getattr(function, "__code__", None), getattr(function, "__defaults__", None) or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :] if code is not None and values else ()
    defaults = dict(zip(names, values), **(getattr(function, "__kwdefaults__", None) or {}))
    made = {name: _default_of(each) for name, each in defaults.items() if type(each).__name__ == "FieldInfo"}
    return {name: value for name, value in made.items() if not _is_none_at_all(value)}


def _default_of(field: Any) -> Any:
    return field.default if field.default_factory is None else field.default_factory()


def _is_none_at_all(default: Any) -> bool:
    """In the words of either of pydantic's generations."""
    return default is Ellipsis or type(default).__name__ in ("PydanticUndefinedType", "UndefinedType")


def bare(hint: Any) -> Any:
    """The hint without `Annotated`, `Required` and the like, and without names that stand for types."""
    for _ in range(_MOST_LAYERS):
        if hasattr(hint, "__metadata__"):
            hint = hint.__origin__
        elif _name(getattr(hint, "__origin__", None)) in _QUALIFIERS and arguments_of(hint):
            hint = hint.__args__[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif type(hint).__name__ == "InitVar":
            hint = hint.type
        else:
            break
    return hint


def kind_of(hint: Any) -> Any:
    """The class behind a bare hint: `list` of `List[int]`."""
    return getattr(hint, "__origin__", None) or hint


def arguments_of(hint: Any) -> tuple[Any, ...]:
    """What stands between its brackets."""
    found = getattr(hint, "__args__", ())
    return found if isinstance(found, tuple) else ()


def is_union(hint: Any) -> bool:
    """`Union[…]`, `Optional[…]` and `… | …`."""
    is_written = type(hint).__name__ in ("UnionType", "Union")
    return is_written or bool(_name(getattr(hint, "__origin__", None)) == "Union")


def admits_none(hint: Any) -> bool:
    """Whether None is one of its values."""
    hint = bare(hint)
    if is_union(hint):
        return any(admits_none(member) for member in arguments_of(hint))
    return hint is None or hint is type(None) or (is_literal(hint) and None in arguments_of(hint))


def is_literal(hint: Any) -> bool:
    """`Literal[…]`."""
    return bool(_name(getattr(hint, "__origin__", None)) == "Literal")


def _name(form: Any) -> Any:
    """How `typing` calls a special form."""
    return getattr(form, "_name", None)
