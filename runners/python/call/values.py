"""A tool's value as JSON.

Nearly every value is plain JSON already, so that is tried first, by the C encoder. What it refuses is walked: tuples
and sets are arrays, keys are text, NaN and infinities are null with a warning, objects of well-known kinds are what
objects.py says, and what has no form at all is shown as ``{"repr": …, "type": …}`` with a warning, without changing the
rest. Cycles and depth are reported, not followed.

A value's class may lie about anything, so what it inherits from a builtin is asked of the builtin, never of the value.
"""

from __future__ import annotations

import itertools

from box import fast_json
from call import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

MAX_DEPTH = 198  # what the engine's reader takes is 200: the reply around a value is one, a note inside it another
_MAX_REPR = 1000
_MAX_WARNINGS = 20
_MAX_TYPE_NAME = 100
_MAX_DIGITS = 4200  # what every Python since 3.8 still reads as a number
_TOO_LONG = 10**_MAX_DIGITS
_NAME = type.__dict__["__name__"]
_DIGITS_AS_ONE = dict.fromkeys(map(ord, "123456789"), "0")
_NO_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))
_SCALARS = frozenset((str, int, float, bool, type(None)))
_PLAIN = frozenset((dict, list, tuple, str, int, float, bool, type(None)))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE = "\\ud"


class Unwritable:
    """A number for which JSON, or its readers, have no form: what it is, and what is given in its place."""

    __slots__ = ("given", "number")

    def __init__(self, number: float, given: str | None) -> None:
        self.number = number
        self.given = given


def serialise(value: object, limit: int, check: Callable[[Any], list[str]] | None = None) -> tuple[str, list[str]]:
    """``(json text, warnings)``; the text may be longer than `limit`, but then not by much. What `check` says of the
    plain value comes first among the warnings."""
    try:
        text = fast_json.write(value, allow_nan=False)
        if len(text) > limit:
            return text, []
        is_odd = _is_deep(text) or _has_lone_surrogate(text) or _has_long_number(text) or _may_lose_keys(value, text)
        if not is_odd:
            return text, check(value if type(value) in _SCALARS else fast_json.read(text)) if check else []
    except BaseException:  # a dict's own `items` may raise anything
        pass
    walk = _Walk(limit)
    plain = walk.plain(value, 0)
    text = _write(plain)
    told = check(plain) if check and not walk.left_out else []
    return text + " " * min(walk.left_out, limit + 1), told + walk.warnings


def _write(plain: Any) -> str:
    return fast_json.write(plain, default=_given, allow_nan=False)


def _given(number: Unwritable) -> str | None:
    return number.given


def type_name(kind: type) -> str:
    """The name of a class, whatever its metaclass says it is."""
    name: str = _NAME.__get__(kind)
    return name[:_MAX_TYPE_NAME]


def _is_deep(text: str) -> bool:
    """Whether the text nests deeper than we allow."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])  # of strings
    brackets = outside.encode("ascii").translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets))) > MAX_DEPTH


def _may_lose_keys(value: object, text: str) -> bool:
    """Whether two keys may be the same as text, such as 1 and "1": they are of kinds that have no order between them,
    which the encoder in C finds out sooner than anybody who looked at each."""
    if '":' not in text:
        return False
    try:
        fast_json.write(value, in_order=True)
    except TypeError:
        return True
    return False


def _has_lone_surrogate(text: str) -> bool:
    """Whether the text has half of a pair: a first without a second behind it, or a second without a first."""
    at = text.find(_SURROGATE)
    while at >= 0:
        is_first = text[at + 3] in "89ab"
        if not is_first and text[at + 3] in "cdef":
            return True
        at += 6
        if is_first:
            if not (text.startswith(_SURROGATE, at) and text[at + 3] in "cdef"):
                return True
            at += 6
        at = text.find(_SURROGATE, at)
    return False


def _has_long_number(text: str) -> bool:
    """Whether so many digits stand in a row, if only in a string."""
    return len(text) > _MAX_DIGITS and "0" * (_MAX_DIGITS + 1) in text.translate(_DIGITS_AS_ONE)


def _has_half_pair(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


class _Walk:
    """One walk over one value, with what it had to change."""

    def __init__(self, limit: int) -> None:
        self.warnings: list[str] = []
        self.left_out = 0
        """Parts that were not even looked at, because all of the value is over the limit with them."""
        self._room = limit
        self._open: set[int] = set()

    def plain(self, value: Any, depth: int) -> Any:
        """`value` as what the JSON encoder takes, but for numbers that are `Unwritable`."""
        self._room -= 1
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if issubclass(kind, str):
            return self._text(value)
        if issubclass(kind, int):
            return self._integer(value)
        if issubclass(kind, float):
            return self._float(value)
        if issubclass(kind, (list, tuple, set, frozenset, dict)):
            return self._container(value, depth)
        return self._object(value, depth)

    def _text(self, value: str) -> str:
        text = str.__str__(value)
        self._room -= len(text)
        if text.isascii() or not _has_half_pair(text):
            return text
        self._warn("half a surrogate pair is given as U+FFFD")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _integer(self, value: int) -> int | Unwritable:
        number = int.__index__(value)
        if abs(number) >= _TOO_LONG:
            self._warn("an integer of %d bits is given as hexadecimal text" % number.bit_length())
            return Unwritable(number, self._text(hex(number)))
        return number

    def _float(self, value: float) -> float | Unwritable:
        number = float.__pos__(value)
        if number != number or number in (float("inf"), float("-inf")):
            self._warn("%r is given as null" % number)
            return Unwritable(number, None)
        return number

    def _container(self, value: Any, depth: int) -> Any:
        return self._inside(value, depth, self._parts)

    def _inside(self, value: Any, depth: int, read: Callable[[Any, int], Any]) -> Any:
        """What `read` makes of it, unless it is inside of itself, or too deep."""
        if id(value) in self._open:
            return self._noted("<cycle>", "the value contains itself; the cycle is not followed")
        if depth >= MAX_DEPTH:
            return self._noted("<deeper>", "the value nests deeper than %d; what is below is left out" % MAX_DEPTH)
        self._open.add(id(value))
        try:
            return read(value, depth)
        finally:
            self._open.discard(id(value))

    def _parts(self, value: Any, depth: int) -> Any:
        if issubclass(type(value), dict):
            return self._mapping(value, depth)
        kind = next(kind for kind in (list, tuple, set, frozenset) if issubclass(type(value), kind))
        return [self.plain(item, depth + 1) for item in self._some(kind.__iter__(value))]

    def _object(self, value: Any, depth: int) -> Any:
        """One of a known kind is what it is in plainer terms; it may be one that cannot be read, or only says so."""
        name = type_name(type(value))
        try:
            found = objects.opened(value, self._room)
        except BaseException as error:
            return self._shown(value, "%s cannot be read (%s); its repr is given" % (name, type_name(type(error))))
        if found is objects.NOTHING:
            return self._shown(value, "%s has no JSON form; its repr is given" % name)
        if type(found) is objects.TooMuch:
            self.left_out += found.parts
            self._room = -1
            return None
        return self._inside(value, depth, lambda _, depth: self._opened(found, depth))

    def _opened(self, found: Any, depth: int) -> Any:
        """What is no plain value yet counts as a level, because it could go on like that."""
        if type(found) is objects.Table:
            return self._table(found, depth)
        return self.plain(found, depth if type(found) in _PLAIN else depth + 1)

    def _table(self, table: objects.Table, depth: int) -> dict[str, Any]:
        """Its first rows and its last, as many as there is room for; all of them where that is enough."""
        columns, share = self.plain(table.columns, depth + 1), self._room // 4
        first = self._rows(table.first, share, depth)
        others = table.last if len(first) == len(table.first) else table.first[len(first) :] + table.last
        last = self._rows(others[::-1], share, depth)[::-1]
        plain = {"$type": "table", "columns": columns, "rows": first + last, "row_count": table.count}
        if len(first) + len(last) < table.count:
            told = "only the first %d and the last %d of a table's %d rows are given"
            self._warn(told % (len(first), len(last), table.count))
            plain["first_rows"] = len(first)
        return plain

    def _rows(self, rows: list[Any], share: int, depth: int) -> list[Any]:
        taken: list[Any] = []
        for row in rows:
            if share < 0:
                break
            taken.append(self.plain(row, depth + 2))
            share -= len(_write(taken[-1]))
        return taken

    def _mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in self._some(dict.items(value)):
            name = self._key(key)
            if name in plain:
                self._warn("two keys are the same as text; the value of the last is given")
            plain[name] = self.plain(item, depth + 1)
        return plain

    def _some(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, as long as there is room: a value over the limit is not built up any further."""
        for item in list(items):
            if self._room < 0:
                return
            yield item

    def _key(self, key: Any) -> str:
        kind = type(key)
        if issubclass(kind, str):
            return self._text(key)
        if issubclass(kind, float):
            return float.__repr__(key)
        if key is None or issubclass(kind, int):
            plain = self.plain(key, 0)
            return str(plain.given) if type(plain) is Unwritable else fast_json.write(plain)
        return self._key_of(key)

    def _key_of(self, key: Any) -> str:
        """A key of any other kind: what is one text or number in plainer terms is that."""
        try:
            found = objects.opened(key, 0)
        except BaseException:
            found = objects.NOTHING
        if found is None or type(found) in (str, int, float, bool):
            return self._key(found)
        return self._shown(key, "a key of type %s is given as text" % type_name(type(key)))["repr"]

    def _shown(self, value: object, warning: str) -> dict[str, str]:
        self._warn(warning)
        try:
            text = str.__str__(repr(value))[:_MAX_REPR]
        except BaseException as error:
            text = "<unreadable: %s>" % type_name(type(error))
        return {"repr": self._text(text), "type": type_name(type(value))}

    def _noted(self, text: str, warning: str) -> dict[str, str]:
        self._warn(warning)
        return {"repr": text, "type": "note"}

    def _warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)
