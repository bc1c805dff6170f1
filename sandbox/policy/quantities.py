"""Sizes, durations and counts, as people write them and as the kernel takes them.

In memory a size is an `int` of bytes and a duration a `float` of seconds; a file or a command line may say `"512MiB"`
or `"2m"` instead. Everything is positive, finite and bounded, so that no value means "unlimited" and none overflows
the kernel's signed 64-bit limits or a timer on its way there. A bare `512M` is refused: half of its readers take it
for 512 000 000. `bool` is refused although Python calls it an `int`: `memory = true` is a mistake, not one byte.

Formatting is exact and reads back as the same value: a message that says "512 MiB is more than 512 MiB" helps nobody.
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

MOST_BYTES: Final = 2**62
"""Half of what a kernel counts: limits are added up on their way to it."""
MOST_SECONDS: Final = 365 * 86400
MOST_COUNTED: Final = 2**31 - 1
MOST_PROCESSES: Final = 4_000_000
"""A kernel has 4194304 at most, and some are ours."""

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
_LONGEST_TEXT: Final = 64


class Unit(StrEnum):
    """Marks a field's annotation, so that its value can be written as people write it."""

    BYTES = "bytes"
    SECONDS = "seconds"


def parse_bytes(value: object) -> int:
    """An `int` or a text such as `512MiB` as bytes; `ValueError` says what is expected instead."""
    if isinstance(value, str):
        value = _whole(_scaled(value, units=_SIZES, bare="b", expected='a size such as "512MiB", "64KiB" or "10MB"'))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError('must be a whole number of bytes, or a size such as "512MiB"')
    if value < 1:
        raise ValueError('must be at least one byte: no value means "unlimited"')
    if value > MOST_BYTES:
        raise ValueError(f"must be at most {MOST_BYTES} bytes")
    return value


def parse_seconds(value: object) -> float:
    """A number or a text such as `2m` as seconds; `ValueError` says what is expected instead."""
    seconds = _seconds(value)
    if not seconds > 0:  # so that NaN is refused too
        raise ValueError('must be longer than zero seconds: no value means "unlimited"')
    return seconds


def parse_seconds_or_zero(value: object) -> float:
    """Seconds as in `parse_seconds`, or zero, for a wait that may be none."""
    seconds = _seconds(value)
    if not seconds >= 0:
        raise ValueError("must not be less than zero seconds")
    return seconds or 0.0  # so that minus zero is zero


def parse_count(value: object) -> int:
    """A whole number from 1 on, as a number or as its digits."""
    count = _count(value)
    if count < 1:
        raise ValueError('must be at least 1: no value means "unlimited"')
    return count


def parse_count_or_zero(value: object) -> int:
    """A whole number from 0 on, for what may be switched off."""
    count = _count(value)
    if count < 0:
        raise ValueError("must not be negative")
    return count


Bytes = Annotated[int, BeforeValidator(parse_bytes), Unit.BYTES]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Unit.SECONDS]
SecondsOrZero = Annotated[float, BeforeValidator(parse_seconds_or_zero), Unit.SECONDS]
Count = Annotated[int, BeforeValidator(parse_count)]
CountOrZero = Annotated[int, BeforeValidator(parse_count_or_zero)]


class WrongEntry(ValueError):
    """One entry of a table of quantities is wrong, the one of that name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def format_bytes(value: int) -> str:
    """Exact, in the unit that needs the smallest number: `512 MiB`, `10 MB`, `1000001 B`."""
    if value == 0:
        return "0 B"
    count, unit = min((value // size, unit) for unit, size in _BYTE_UNITS.items() if value % size == 0)
    return f"{count} {unit}"


def format_seconds(value: float) -> str:
    """Exact, in the largest unit that divides it at least twice: `500 ms`, `30 s`, `60 s`, `90 min`, `7 d`."""
    exact = Decimal(repr(float(value)))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if exact >= 2 * size and exact % size == 0:
            return f"{_plain(exact / size)} {unit}"
    if 0 < exact < 1:
        return f"{_plain(exact * 1000)} ms"
    return f"{_plain(exact)} s"


def _seconds(value: object) -> float:
    if isinstance(value, str):
        expected = 'a duration such as "30s", "2m" or "500ms"'
        value = float(_scaled(value, units=_SECOND_UNITS, bare="s", expected=expected))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('must be a number of seconds, or a duration such as "30s"')
    if abs(value) > MOST_SECONDS:
        raise ValueError(f"must be finite, and at most {MOST_SECONDS} seconds (one year)")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    if value > MOST_COUNTED:
        raise ValueError(f"must be at most {MOST_COUNTED}")
    return value


def _scaled(text: str, *, units: dict[str, Decimal], bare: str, expected: str) -> Decimal:
    """The number in `text` times its unit; `bare` is the unit of a text that names none."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    size = units.get(match[2].lower() or bare) if match else None
    if match is None or size is None:
        raise ValueError(f"must be {expected}")
    return Decimal(match[1]) * size


def _whole(value: Decimal) -> int:
    if value != value.to_integral_value():
        raise ValueError("must be a whole number of bytes")
    return int(value)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
