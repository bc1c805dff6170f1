"""A tool's value as JSON.

Nearly every value is plain JSON already, so the C encoder tries first. A value that it refuses is walked: tuples and
sets become arrays, keys become text, NaN and infinities become null with a warning, and call/objects.py converts
objects of well-known classes. An object without any form becomes ``{"repr": …, "type": …}`` with a warning, and the
rest of the value stays unchanged. Cycles and excessive depth are reported, not followed.

A value's class may lie about anything, so an inherited attribute is read with the method of the builtin class.
"""

from __future__ import annotations

import itertools

from box import fast_json
from call import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

MAX_DEPTH = 198  # the engine's reader allows 200: the reply around the value is one level, a note inside it another
_MAX_REPR = 1000
_MAX_WARNINGS = 20
_MAX_TYPE_NAME = 100
_MAX_DIGITS = 4200  # every Python since 3.8 can read that many
_TOO_LONG = 10**_MAX_DIGITS
_NAME = type.__dict__["__name__"]
_DIGITS_AS_ONE = dict.fromkeys(map(ord, "123456789"), "0")
_NO_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))
_SCALARS = frozenset((str, int, float, bool, type(None)))
_PLAIN = frozenset((dict, list, tuple, str, int, float, bool, type(None)))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE = "\\ud"


class NonJsonNumber:
    """A number without a form in JSON or in its readers, and its substitute."""

    __slots__ = ("number", "substitute")

    def __init__(self, number: float, substitute: str | None) -> None:
        self.number = number
        self.substitute = substitute


def serialise(value: object, limit: int, check: Callable[[Any], list[str]] | None = None) -> tuple[str, list[str]]:
    """Return the JSON text and the warnings; those of `check` about the plain value come first.

    The text may be longer than `limit`, but not by much.
    """
    try:
        text = fast_json.write(value, allow_nan=False)
        if len(text) > limit:
            return text, []
        is_odd = _is_deep(text) or _has_lone_surrogate(text) or _has_long_number(text) or _may_lose_keys(value, text)
        if not is_odd:
            return text, check(value if type(value) in _SCALARS else fast_json.read(text)) if check else []
    except BaseException:  # `items` of a class derived from dict may raise anything
        pass
    walk = _ValueWalk(limit)
    plain = walk.plain(value, 0)
    text = _write(plain)
    misfits = check(plain) if check and not walk.left_out else []
    return text + " " * min(walk.left_out, limit + 1), misfits + walk.warnings


def _write(plain: Any) -> str:
    return fast_json.write(plain, default=_substitute, allow_nan=False)


def _substitute(number: NonJsonNumber) -> str | None:
    return number.substitute


def type_name(kind: type) -> str:
    """Return the name of a class as Python keeps it, in spite of its metaclass."""
    name: str = _NAME.__get__(kind)
    return name[:_MAX_TYPE_NAME]


def _is_deep(text: str) -> bool:
    """Whether the text nests deeper than allowed."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])  # without the strings
    brackets = outside.encode("ascii").translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets))) > MAX_DEPTH


def _may_lose_keys(value: object, text: str) -> bool:
    """Whether two keys may be the same as text, such as 1 and "1".

    Such keys have no order between them, and the sorting C encoder finds that out faster than any loop.
    """
    if '":' not in text:
        return False
    try:
        fast_json.write(value, in_order=True)
    except TypeError:
        return True
    return False


def _has_lone_surrogate(text: str) -> bool:
    """Whether the text has half of a surrogate pair: a first without a second, or a second without a first."""
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
    """Whether the text has too many digits in a row, possibly within a string."""
    return len(text) > _MAX_DIGITS and "0" * (_MAX_DIGITS + 1) in text.translate(_DIGITS_AS_ONE)


def _has_half_pair(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


class _ValueWalk:
    """A walk over one value, with warnings about changes."""

    def __init__(self, limit: int) -> None:
        self.warnings: list[str] = []
        self.left_out = 0
        """The number of parts that were skipped because the value is over the limit with them."""
        self._room = limit
        self._open: set[int] = set()

    def plain(self, value: Any, depth: int) -> Any:
        """Return `value` in a form that the JSON encoder accepts, except for each `NonJsonNumber`."""
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

    def _integer(self, value: int) -> int | NonJsonNumber:
        number = int.__index__(value)
        if abs(number) >= _TOO_LONG:
            self._warn("an integer of %d bits is given as hexadecimal text" % number.bit_length())
            return NonJsonNumber(number, self._text(hex(number)))
        return number

    def _float(self, value: float) -> float | NonJsonNumber:
        number = float.__pos__(value)
        if number != number or number in (float("inf"), float("-inf")):
            self._warn("%r is given as null" % number)
            return NonJsonNumber(number, None)
        return number

    def _container(self, value: Any, depth: int) -> Any:
        return self._inside(value, depth, self._parts)

    def _inside(self, value: Any, depth: int, read: Callable[[Any, int], Any]) -> Any:
        """Return the result of `read`, unless the value contains itself or is too deep."""
        if id(value) in self._open:
            return self._note("<cycle>", "the value contains itself; the cycle is not followed")
        if depth >= MAX_DEPTH:
            return self._note("<deeper>", "the value nests deeper than %d; what is below is left out" % MAX_DEPTH)
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
        """Convert an object of a known class; a class may also be broken, or only pretend to be known."""
        name = type_name(type(value))
        try:
            found = objects.simplify(value, self._room)
        except BaseException as error:
            return self._show(value, "%s cannot be read (%s); its repr is given" % (name, type_name(type(error))))
        if found is objects.NOTHING:
            return self._show(value, "%s has no JSON form; its repr is given" % name)
        if type(found) is objects.Oversized:
            self.left_out += found.parts
            self._room = -1
            return None
        return self._inside(value, depth, lambda _, depth: self._walk_simplified(found, depth))

    def _walk_simplified(self, found: Any, depth: int) -> Any:
        """Walk a simplified object; one that is not plain yet counts as a level, because it could go on like that."""
        if type(found) is objects.CutTable:
            return self._table(found, depth)
        return self.plain(found, depth if type(found) in _PLAIN else depth + 1)

    def _table(self, table: objects.CutTable, depth: int) -> dict[str, Any]:
        """Return the first rows and the last, as many as there is room for, or all of them."""
        columns, share = self.plain(table.columns, depth + 1), self._room // 4
        first = self._rows(table.first, share, depth)
        others = table.last if len(first) == len(table.first) else table.first[len(first) :] + table.last
        last = self._rows(others[::-1], share, depth)[::-1]
        plain = {"$type": "table", "columns": columns, "rows": first + last, "row_count": table.count}
        if len(first) + len(last) < table.count:
            warning = "only the first %d and the last %d of a table's %d rows are given"
            self._warn(warning % (len(first), len(last), table.count))
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
        """Yield the items while there is room: a value over the limit is not built up any further."""
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
            return str(plain.substitute) if type(plain) is NonJsonNumber else fast_json.write(plain)
        return self._object_as_key(key)

    def _object_as_key(self, key: Any) -> str:
        """Return the text for a key of any other class: its simplified form, if that is one text or number."""
        try:
            found = objects.simplify(key, 0)
        except BaseException:
            found = objects.NOTHING
        if found is None or type(found) in (str, int, float, bool):
            return self._key(found)
        return self._show(key, "a key of type %s is given as text" % type_name(type(key)))["repr"]

    def _show(self, value: object, warning: str) -> dict[str, str]:
        self._warn(warning)
        try:
            text = str.__str__(repr(value))[:_MAX_REPR]
        except BaseException as error:
            text = "<unreadable: %s>" % type_name(type(error))
        return {"repr": self._text(text), "type": type_name(type(value))}

    def _note(self, text: str, warning: str) -> dict[str, str]:
        self._warn(warning)
        return {"repr": text, "type": "note"}

    def _warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)
