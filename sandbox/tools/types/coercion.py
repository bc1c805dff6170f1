"""The few conversions arguments get, each decided by the declared type and never by what the text looks like.

Models often write `"5"` for 5 and `"[1, 2]"` for a list. Where an integer or a list is declared, nothing else can have
been meant. Each function gives the converted value or raises ValueError.
"""

from __future__ import annotations

import math
import re
from typing import Final

from sandbox.tools.plain_json import JSON, MAX_INTEGER, MIN_INTEGER, json_from_text

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_BOOLEANS: Final = {"true": True, "false": False}


def integer_from(value: object) -> int:
    """Return 5 for `"5"` and for 5.0."""
    if isinstance(value, float) and value.is_integer():
        return _within_64_bits(int(value))
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return _within_64_bits(int(value))
    raise ValueError("not an integer")


def number_from(value: object) -> float:
    """Return 2.5 for `"2.5"`."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
        if math.isfinite(number):
            return number
    raise ValueError("not a number")


def boolean_from(value: object) -> bool:
    """Return True for `"true"`, in any case."""
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise ValueError("not a boolean")


def null_from(value: object) -> None:
    """Return None for `"null"`."""
    if value != "null":
        raise ValueError("not null")


def text_from(value: object) -> str:
    """Raise ValueError, because nothing but a string becomes text."""
    raise ValueError(f"{type(value).__name__} is not text")


def array_from(value: object) -> list[JSON]:
    """Return a list from its JSON text."""
    parsed = json_from_text(value) if isinstance(value, str) and value.lstrip().startswith("[") else None
    if isinstance(parsed, list):
        return parsed
    raise ValueError("not an array")


def object_from(value: object) -> dict[str, JSON]:
    """Return a dict from its JSON text."""
    parsed = json_from_text(value) if isinstance(value, str) and value.lstrip().startswith("{") else None
    if isinstance(parsed, dict):
        return parsed
    raise ValueError("not an object")


def _within_64_bits(value: int) -> int:
    if MIN_INTEGER <= value <= MAX_INTEGER:
        return value
    raise ValueError("beyond 64 bits")
