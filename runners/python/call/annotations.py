"""The annotations of a tool in its own process, and the readers of values that JSON writes as text.

Annotations are evaluated where possible, and stripped of marks that only add to them.

Dates, durations, identifiers, exact numbers, paths, addresses and bytes arrive as text. Their classes are known by
name, so that a call imports only the modules that it uses. Forms that Python 3.8 does not read (`Z`, a fraction of any
length, an offset without a colon, ISO 8601 durations) are first converted into the form that it reads.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MAX_LAYERS = 50
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_DATE = r"(?P<date>\d{4}-\d{2}-\d{2})"
_CLOCK = (
    r"(?P<clock>\d{2}:\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?\s*(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?"
)
_MOMENT = r"%s(?:[Tt_ ]%s)?" % (_DATE, _CLOCK)
_DURATION = (
    r"(?P<sign>[+-])?P(?:(?P<years>[\d.,]+)Y)?(?:(?P<months>[\d.,]+)M)?(?:(?P<weeks>[\d.,]+)W)?(?:(?P<days>[\d.,]+)D)?"
    r"(?:T(?:(?P<hours>[\d.,]+)H)?(?:(?P<minutes>[\d.,]+)M)?(?:(?P<seconds>[\d.,]+)S)?)?"
)
_CLOCKED_DURATION = (
    r"(?P<sign>[+-])?(?:(?P<days>\d+)(?: ?d(?:ays?)?)?,? *)?(?P<hours>\d+):(?P<minutes>\d+)(?::(?P<seconds>[\d.,]+))?"
)
_UNITS = {
    "years": 31536000,
    "months": 2592000,
    "weeks": 604800,
    "days": 86400,
    "hours": 3600,
    "minutes": 60,
    "seconds": 1,
}


def hints_of(thing: Any) -> dict[str, Any]:
    """Return the annotations of a function or class by name, except those that this Python cannot evaluate."""
    import typing

    read: Any = typing.get_type_hints
    try:
        found: dict[str, Any] = read(thing, include_extras=True) if sys.version_info >= (3, 9) else read(thing)
        return found
    except Exception:
        return dict(_evaluate_each(thing))


def _evaluate_each(thing: Any) -> Iterator[tuple[str, Any]]:
    for kind in _owners_of_annotations(thing):
        names = getattr(kind, "__globals__", None) or vars(sys.modules.get(getattr(kind, "__module__", ""), sys))
        try:
            annotations = dict(getattr(kind, "__annotations__", None) or {})
        except Exception:  # since Python 3.14 the access itself evaluates all of them
            continue
        for name, annotation in annotations.items():
            try:
                yield name, _evaluate(annotation, dict(names))
            except Exception:
                continue


def _evaluate(annotation: Any, names: dict[str, Any]) -> Any:
    """Evaluate an annotation; this is the tool's own process, in which all of its code runs."""
    return eval(annotation, names) if isinstance(annotation, str) else annotation  # noqa: S307  (the tool's own text)


def _owners_of_annotations(thing: Any) -> list[Any]:
    """Return the function, or the class after its bases, whose annotations it overrides."""
    if isinstance(thing, type):
        return list(reversed(thing.__mro__))
    return [getattr(thing, "__func__", thing)]


def defaults_of_fields(function: Any) -> dict[str, Any]:
    """Return the defaults of parameters that have a pydantic `Field(3, ge=1)` in place of a default."""
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, values = getattr(function, "__code__", None), getattr(function, "__defaults__", None) or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :] if code is not None and values else ()
    defaults = dict(zip(names, values), **(getattr(function, "__kwdefaults__", None) or {}))
    found = {name: _default_of(each) for name, each in defaults.items() if type(each).__name__ == "FieldInfo"}
    return {name: value for name, value in found.items() if not _is_missing(value)}


def _default_of(field: Any) -> Any:
    return field.default if field.default_factory is None else field.default_factory()


def _is_missing(default: Any) -> bool:
    """Whether pydantic 1 or 2 says that there is no default."""
    return default is Ellipsis or type(default).__name__ in ("PydanticUndefinedType", "UndefinedType")


def bare(hint: Any) -> Any:
    """Return the hint without `Annotated`, `Required` and the like, and without aliases."""
    for _ in range(_MAX_LAYERS):
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
    """Return the class behind a bare hint: `list` of `List[int]`."""
    return getattr(hint, "__origin__", None) or hint


def arguments_of(hint: Any) -> tuple[Any, ...]:
    """Return the arguments between the brackets of a hint."""
    found = getattr(hint, "__args__", ())
    return found if isinstance(found, tuple) else ()


def is_union(hint: Any) -> bool:
    """Whether a hint is `Union[…]`, `Optional[…]` or `… | …`."""
    is_operator = type(hint).__name__ in ("UnionType", "Union")
    return is_operator or bool(_name(getattr(hint, "__origin__", None)) == "Union")


def admits_none(hint: Any) -> bool:
    """Whether None is a value of the hint."""
    hint = bare(hint)
    if is_union(hint):
        return any(admits_none(member) for member in arguments_of(hint))
    return hint is None or hint is type(None) or (is_literal(hint) and None in arguments_of(hint))


def is_literal(hint: Any) -> bool:
    """Whether a hint is `Literal[…]`."""
    return bool(_name(getattr(hint, "__origin__", None)) == "Literal")


def _name(form: Any) -> Any:
    """Return the name of a special form of `typing`."""
    return getattr(form, "_name", None)


# Values that JSON writes as text


def reader_of(kind: type) -> Callable[[Any, Any], Any] | None:
    """Return the function that makes a JSON value an object of this class, or of a base class; None if unknown.

    The function raises ValueError and the like for a value that does not fit.
    """
    for base in kind.__mro__:
        found = _READERS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


def _moment(value: Any, kind: Any) -> Any:
    found = _match(_MOMENT, value)
    if found["clock"] is None:
        return kind.fromisoformat(found["date"])
    return kind.fromisoformat("%sT%s" % (found["date"], _clock(found)))


def _date(value: Any, kind: Any) -> Any:
    found = _match(_MOMENT, value)
    if found["clock"] is not None and (found["clock"] != "00:00" or (found["second"] or "00").strip("0")):
        raise ValueError("has a time of day, which a date has not")
    return kind.fromisoformat(found["date"])


def _time(value: Any, kind: Any) -> Any:
    return kind.fromisoformat(_clock(_match(_CLOCK, value)))


def _clock(found: dict[str, Any]) -> str:
    """Return the time as Python 3.8 reads it: six digits of a fraction, hours and minutes of an offset."""
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    zone = found["zone"] or ""
    if zone in ("Z", "z"):
        zone = "+00:00"
    elif zone:
        zone = "%s:%s" % (zone[:3], zone[3:].lstrip(":") or "00")
    return "%s:%s.%s%s" % (found["clock"], found["second"] or "00", fraction, zone)


def _duration(value: Any, kind: Any) -> Any:
    if type(value) in (int, float):
        return kind(seconds=value)
    found = _match(_DURATION if "P" in str(value) else _CLOCKED_DURATION, value)
    given = {unit: found[unit] for unit in _UNITS if found.get(unit)}
    if not given:
        raise ValueError("is not a duration")
    microseconds = sum(round(float(text.replace(",", ".")) * _UNITS[unit] * 1000000) for unit, text in given.items())
    return kind(microseconds=-microseconds if found["sign"] == "-" else microseconds)


def _match(pattern: str, value: Any) -> dict[str, Any]:
    import re  # already imported by `typing` if an annotation names one of these classes

    match = re.fullmatch(pattern, value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is not written as ISO 8601 says")
    return match.groupdict()


def _decimal(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("is not a number")
    return kind(str(value))


def _text(value: Any, kind: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return kind(value)


def _bytes(value: Any, kind: Any) -> Any:
    """Return the bytes of a text, because JSON has no bytes."""
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return kind(value.encode("utf-8"))


_READERS: dict[tuple[str, str], Callable[[Any, Any], Any]] = {
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _date,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _duration,
    ("uuid", "UUID"): _text,
    ("decimal", "Decimal"): _decimal,
    ("_pydecimal", "Decimal"): _decimal,
    ("pathlib", "PurePath"): _text,
    ("ipaddress", "IPv4Address"): _text,
    ("ipaddress", "IPv6Address"): _text,
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytes,
}
