"""Sizes, durations and counts: parse what people write, and format values exactly.

In memory a size is an `int` of bytes and a duration a `float` of seconds; a file or a command line may say `"512MiB"`
or `"2m"` instead. Every value is positive, finite and bounded, so that no value means "unlimited" and none overflows
the kernel's signed 64-bit limits or a timer. A bare `512M` is refused, because half of its readers would take it for
512 000 000. `bool` is refused although Python calls it an `int`: `memory = true` is a mistake, not one byte.

Formatting is exact and reads back as the same value, so that no message says "512 MiB is more than 512 MiB".
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

MAX_BYTES: Final = 2**62
"""Half of the kernel's own bound, because the backends add limits up."""
MAX_SECONDS: Final = 365 * 86400
MAX_COUNT: Final = 2**31 - 1
MAX_PROCESSES: Final = 4_000_000
"""A kernel has at most 4194304 processes, and the engine needs some."""

_BYTE_UNITS: Final = {
    "B": 1,
    "kB": 1000,
    "KiB": KIB,
    "MB": 1000**2,
    "MiB": MIB,
    "GB": 1000**3,
    "GiB": GIB,
    "TB": 1000**4,
    "TiB": 1024 * GIB,
}
_SECOND_UNITS: Final = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_SIZES: Final = {name.lower(): Decimal(size) for name, size in _BYTE_UNITS.items()}

_QUANTITY: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_MAX_TEXT: Final = 64


class Unit(StrEnum):
    """Annotate a field with the unit in which its value is shown."""

    BYTES = "bytes"
    SECONDS = "seconds"


def parse_bytes(value: object) -> int:
    """Return the bytes of an `int` or of a text such as `512MiB`. Raise `ValueError` for anything else."""
    if isinstance(value, str):
        value = _require_whole(
            _scale(value, units=_SIZES, bare="b", expected='a size such as "512MiB", "64KiB" or "10MB"')
        )
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError('must be a whole number of bytes, or a size such as "512MiB"')
    if value < 1:
        raise ValueError('must be at least one byte: no value means "unlimited"')
    if value > MAX_BYTES:
        raise ValueError(f"must be at most {MAX_BYTES} bytes")
    return value


def parse_seconds(value: object) -> float:
    """Return the seconds of a number or of a text such as `2m`. Raise `ValueError` for anything else."""
    seconds = _parse_seconds(value)
    if not seconds > 0:  # `not >` also refuses NaN
        raise ValueError('must be longer than zero seconds: no value means "unlimited"')
    return seconds


def parse_seconds_or_zero(value: object) -> float:
    """Return seconds as `parse_seconds` does, or zero."""
    seconds = _parse_seconds(value)
    if not seconds >= 0:
        raise ValueError("must not be less than zero seconds")
    return seconds or 0.0  # minus zero becomes zero


def parse_count(value: object) -> int:
    """Return a whole number of at least 1, given as a number or as digits."""
    count = _parse_count(value)
    if count < 1:
        raise ValueError('must be at least 1: no value means "unlimited"')
    return count


def parse_count_or_zero(value: object) -> int:
    """Return a whole number of at least 0, given as a number or as digits."""
    count = _parse_count(value)
    if count < 0:
        raise ValueError("must not be negative")
    return count


Bytes = Annotated[int, BeforeValidator(parse_bytes), Unit.BYTES]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Unit.SECONDS]
SecondsOrZero = Annotated[float, BeforeValidator(parse_seconds_or_zero), Unit.SECONDS]
Count = Annotated[int, BeforeValidator(parse_count)]
CountOrZero = Annotated[int, BeforeValidator(parse_count_or_zero)]


class EntryError(ValueError):
    """Raised for an entry of a table of quantities, with the entry's name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def format_bytes(value: int) -> str:
    """Format exactly, in the unit with the smallest number: `512 MiB`, `10 MB`, `1000001 B`."""
    if value == 0:
        return "0 B"
    count, unit = min((value // size, unit) for unit, size in _BYTE_UNITS.items() if value % size == 0)
    return f"{count} {unit}"


def format_seconds(value: float) -> str:
    """Format exactly, in the largest unit that divides the value at least twice: `500 ms`, `60 s`, `90 min`, `7 d`."""
    exact = Decimal(repr(float(value)))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if exact >= 2 * size and exact % size == 0:
            return f"{_format_number(exact / size)} {unit}"
    if 0 < exact < 1:
        return f"{_format_number(exact * 1000)} ms"
    return f"{_format_number(exact)} s"


def _parse_seconds(value: object) -> float:
    if isinstance(value, str):
        expected = 'a duration such as "30s", "2m" or "500ms"'
        value = float(_scale(value, units=_SECOND_UNITS, bare="s", expected=expected))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('must be a number of seconds, or a duration such as "30s"')
    if abs(value) > MAX_SECONDS:
        raise ValueError(f"must be finite, and at most {MAX_SECONDS} seconds (one year)")
    return float(value)


def _parse_count(value: object) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    if value > MAX_COUNT:
        raise ValueError(f"must be at most {MAX_COUNT}")
    return value


def _scale(text: str, *, units: dict[str, Decimal], bare: str, expected: str) -> Decimal:
    """Return the number in `text` times its unit. `bare` is the unit of a text without one."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    size = units.get(match[2].lower() or bare) if match else None
    if match is None or size is None:
        raise ValueError(f"must be {expected}")
    return Decimal(match[1]) * size


def _require_whole(value: Decimal) -> int:
    if value != value.to_integral_value():
        raise ValueError("must be a whole number of bytes")
    return int(value)


def _format_number(value: Decimal) -> str:
    return f"{value.normalize():f}"
