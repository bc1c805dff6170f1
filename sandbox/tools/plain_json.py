"""Arguments as plain JSON values: a copy that shares nothing with the caller and that any JSON writer accepts.

A value that JSON or a reader other than Python could not take is refused with its place: NaN and infinities, halves of
surrogate pairs, integers beyond 64 bits, keys that are not strings, objects of other types, depth beyond 200, more than
10 MiB of text, or more than a million values. A tuple becomes a list. A value that contains itself ends at the depth
limit, and a value that contains another many times ends at the number limit, so every copy is bounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from sandbox.tools.safe_text import NAME_LENGTH, excerpt

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_DEPTH: Final = 200
MAX_BYTES: Final = 10 * 1024 * 1024
MAX_VALUES: Final = 1_000_000
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1


class NotPlain(Exception):
    """A value that is not plain JSON; `path` leads to it from the value that was copied."""

    def __init__(self, message: str, value: object) -> None:
        super().__init__(message)
        self.message = message
        self.value = value
        self.path: list[str | int] = []

    def under(self, key: str | int) -> NotPlain:
        """Return the same, seen from one level further out."""
        self.path.insert(0, key)
        return self


class PlainCopy:
    """Copies values until they are too large together."""

    def __init__(self) -> None:
        self._bytes = 0
        self._values = 0

    def copy(self, value: object, *, depth: int = 0) -> JSON:
        """Return the value as plain JSON, or `NotPlain`."""
        self._count(value)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, float):
            return _number(value)
        if depth >= MAX_DEPTH and isinstance(value, list | tuple | Mapping):
            raise NotPlain(f"is nested deeper than {MAX_DEPTH} levels", value)
        if isinstance(value, list | tuple):
            return self._items(value, depth=depth + 1)
        if isinstance(value, Mapping):
            return self._members(value, depth=depth + 1)
        raise NotPlain("is not a JSON value", value)

    def key(self, key: object) -> str:
        """Return the name of a member, or `NotPlain`."""
        if isinstance(key, str):
            return self._text(key)
        raise NotPlain("has a name that is not a string", key)

    def _items(self, values: list[object] | tuple[object, ...], *, depth: int) -> list[JSON]:
        copied: list[JSON] = []
        for position, value in enumerate(values):
            try:
                copied.append(self.copy(value, depth=depth))
            except NotPlain as fault:
                raise fault.under(position) from None
        return copied

    def _members(self, values: Mapping[object, object], *, depth: int) -> dict[str, JSON]:
        copied: dict[str, JSON] = {}
        for key, value in values.items():
            name = self.key(key)
            try:
                copied[name] = self.copy(value, depth=depth)
            except NotPlain as fault:
                raise fault.under(excerpt(name, NAME_LENGTH)) from None
        return copied

    def _text(self, value: str) -> str:
        try:
            self._spend(len(value) if value.isascii() else len(value.encode()), value)
        except UnicodeEncodeError:
            raise NotPlain("holds half of a surrogate pair, which is not text", value) from None
        return str.__str__(value)

    def _count(self, value: object) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise NotPlain(f"makes the arguments hold more than {MAX_VALUES} values", value)

    def _spend(self, size: int, value: object) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise NotPlain(f"makes the arguments larger than {MAX_BYTES} bytes", value)


def json_from_text(text: str) -> JSON:
    """Return the value a JSON text stands for; ValueError when it is not JSON or not plain."""
    try:
        return PlainCopy().copy(json.loads(text, parse_constant=_refuse_constant))
    except (RecursionError, NotPlain) as fault:
        raise ValueError(str(fault)) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(value: int) -> int:
    if MIN_INTEGER <= value <= MAX_INTEGER:
        return int.__index__(value)
    raise NotPlain("is an integer beyond 64 bits; hand it over as a string", value)


def _number(value: float) -> float:
    if math.isfinite(value):
        return float.__float__(value)
    raise NotPlain("is not a finite number", value)
