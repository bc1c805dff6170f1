"""Values that JSON writes as text: dates, durations, identifiers, numbers without loss, paths, addresses, bytes.

The classes are known by their names, so that none of their modules is imported for a call that does not use it. What
Python 3.8 does not read by itself (`Z`, a fraction of any length, an offset without a colon, ISO 8601 durations) is put
into the form that it does read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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


def reader_of(kind: type) -> Callable[[Any, Any], Any] | None:
    """What makes a value of JSON one of this class, or of the class it is derived from; None where that is not known.
    It raises ValueError and its like for a value that is none."""
    for base in kind.__mro__:
        found = _READERS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


def _moment(value: Any, kind: Any) -> Any:
    found = _matched(_MOMENT, value)
    if found["clock"] is None:
        return kind.fromisoformat(found["date"])
    return kind.fromisoformat("%sT%s" % (found["date"], _clock(found)))


def _date(value: Any, kind: Any) -> Any:
    found = _matched(_MOMENT, value)
    if found["clock"] is not None and (found["clock"] != "00:00" or (found["second"] or "00").strip("0")):
        raise ValueError("has a time of day, which a date has not")
    return kind.fromisoformat(found["date"])


def _time(value: Any, kind: Any) -> Any:
    return kind.fromisoformat(_clock(_matched(_CLOCK, value)))


def _clock(found: dict[str, Any]) -> str:
    """As the oldest Python reads it: six digits of a fraction, hours and minutes of an offset."""
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
    found = _matched(_DURATION if "P" in str(value) else _CLOCKED_DURATION, value)
    given = {unit: found[unit] for unit in _UNITS if found.get(unit)}
    if not given:
        raise ValueError("is not a duration")
    microseconds = sum(round(float(text.replace(",", ".")) * _UNITS[unit] * 1000000) for unit, text in given.items())
    return kind(microseconds=-microseconds if found["sign"] == "-" else microseconds)


def _matched(pattern: str, value: Any) -> dict[str, Any]:
    import re  # with `typing`, where annotations ask for any of these

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
    """JSON has no bytes: they are those of the text."""
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
