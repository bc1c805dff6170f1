"""JSON that stays JSON: long strings, long arrays and deep branches are pruned, each with a count of the missing part.

Every value is given room. A value that fits into its room stays as it is; otherwise

* a string keeps its beginning: `"Once upon… [9000 more characters]"`;
* an array keeps its first items and its last: `[1, 2, "… 997 more items", 1000]`;
* an object keeps its first keys: `{"id": 1, "…": "12 more keys"}`;
* a value without room for that is a count: `"{… 5 keys}"`, `"[… 7 items]"`, `"… 9000 characters"`, `"… 400 digits"`.

The room of a container is shared among the values that it keeps, so that small values stay whole and large values get
equal parts. The notice is the value of a key of its own, or the last item of an array. Pruning a pruned value adds to
the counts. Only the kept values are looked at, however large the rest is.

Text of this type that is not JSON, or that was too long to be kept, is shown from both ends like any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sandbox.outcome import Json
from sandbox.outputs.boundaries import prefix, suffix
from sandbox.outputs.notices import Notice
from sandbox.outputs.shapes.shape import Fit
from sandbox.outputs.shapes.texts import Cut, fit_ends
from sandbox.outputs.text_ends import ParsedValue, TextEnds

_MORE: Final = "…"
_FRAME_OF_NOTICE: Final = 16  # `, "…": ""`, and longer where the value has such a key itself
_LEAST: Final = 28  # the longest of the plain counts
_SHARES: Final = 6  # the least number of items shown of an array, however large they are
_MAX_DEPTH: Final = 200
_MAX_NUMBER_LENGTH: Final = 40
_MAX_ITEMS: Final = 1 << 18  # in nothing that was pruned before are there more
_MANY_ITEMS: Final = re.compile(r"… (\d{1,18}) more items?")
_MANY_KEYS: Final = re.compile(r"(\d{1,18}) more keys?")
_MANY_CHARACTERS: Final = re.compile(r"… \[(\d{1,18}) more characters?\]\Z")
_TRIES: Final = 6


def json_data(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Return the pruned value with the notice in it; both ends of what is no JSON."""
    parsed = ends.parsed or _parse(ends)
    if parsed is None:
        return _both_ends(ends, budget, notice)
    room = most = budget - _FRAME_OF_NOTICE
    for _ in range(_TRIES):
        if room < _LEAST:
            break
        pruned = prune(parsed.value, room=room)
        shown = len(_text(pruned))
        if shown <= most:
            return Fit(_text(_with_notice(pruned, notice.gap(shown=shown))), shown)
        room = room * most * 9 // shown // 10
    return Fit(_text(notice.gap(shown=0)), 0)


def prune(value: Json, *, room: int) -> Json:
    """Return the value pruned to about `room` characters of JSON."""
    return _Pruning(most=room).fit(value, room, depth=0)


def _parse(ends: TextEnds) -> ParsedValue | None:
    if not ends.is_whole or not ends.head.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return ParsedValue(json.loads(ends.head))
    except (ValueError, RecursionError):
        return None


def _both_ends(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    head = prefix(ends.head, most=budget // 2)
    return fit_ends(ends, Cut(head, suffix(ends.tail, most=budget - len(head))), notice)


def _with_notice(pruned: Json, notice: str) -> Json:
    if isinstance(pruned, dict):
        return {**pruned, _free_key(pruned): notice}
    if isinstance(pruned, list):
        return [*pruned, notice]
    return [pruned, notice]


def _free_key(taken: dict[str, Json]) -> str:
    """Return a key that the value does not have; a value that has all of them loses the last."""
    keys = [_MORE * count for count in range(1, 6)]
    return next((key for key in keys if key not in taken), keys[-1])


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Share:
    """A value that is kept: what its JSON takes, and the room that it gets."""

    value: Json
    size: int
    room: int = 0


class _Pruning:
    """The pruning of one value; it remembers the sizes of the parts that it has measured."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._sizes: dict[int, int] = {}

    def fit(self, value: Json, room: int, *, depth: int) -> Json:
        if self._size(value, depth) <= room:
            return value
        if isinstance(value, str):
            return _short_string(value, room)
        if isinstance(value, list):
            return self._short_array(value, room, depth=depth)
        if isinstance(value, dict):
            return self._short_object(value, room, depth=depth)
        text = _text(value)
        return value if len(text) <= _MAX_NUMBER_LENGTH else f"{_MORE} {len(text)} digits"

    def _size(self, value: Any, depth: int) -> int:
        """Return the characters of its JSON; some number over the most there is room for when it is over that."""
        if isinstance(value, str):
            return len(value) + 2 if len(value) > self._most else len(_text(value))
        if not isinstance(value, list | dict):
            return len(_text(value))
        known = self._sizes.get(id(value))
        if known is None:
            known = self._sizes[id(value)] = self._measure(value, depth)
        return known

    def _measure(self, value: list[Json] | dict[str, Json], depth: int) -> int:
        if depth > _MAX_DEPTH or 3 * len(value) > self._most:
            return self._most + 1
        size = max(2 * len(value), 2)
        parts: Iterable[Any] = value
        if isinstance(value, dict):
            parts = value.values()
            size += sum(len(_text(key)) + 2 for key in value)
        for part in parts:
            size += self._size(part, depth + 1)
            if size > self._most:
                break
        return size

    def _short_array(self, items: list[Json], room: int, *, depth: int) -> Json:
        """Return items from both sides, as many as have room, each with at least a share of it."""
        left, most = room - 2 - _LEAST, max(room // _SHARES, 2 * _LEAST)
        count = 0
        while count < len(items):
            size = self._size(items[count // 2 if count % 2 == 0 else -1 - count // 2], depth + 1)
            left -= min(size, most) + 2
            if left < 0:
                break
            count += 1
        if not count:
            return f"[… {_count_of(_count(items), 'item')}]"
        behind = len(items) - count // 2
        kept = [*items[: (count + 1) // 2], *items[behind:]]
        gone = items[(count + 1) // 2 : behind]
        fitted = self._share(kept, room - 2 - 2 * count - (_LEAST if gone else 0), depth=depth)
        more: list[Json] = [f"{_MORE} {_count_of(_count(gone), 'more item')}"] if gone else []
        return [*fitted[: (count + 1) // 2], *more, *fitted[(count + 1) // 2 :]]

    def _short_object(self, members: dict[str, Json], room: int, *, depth: int) -> Json:
        """Return as many keys as have room with the least that can be said of their values."""
        gone = _gone_keys(members)
        left, kept = room - 2 - _LEAST, dict[str, Json]()
        for key, value in members.items():
            left -= len(_text(key)) + 4 + min(self._size(value, depth + 1), _LEAST)
            if left < 0:
                break
            if not gone or key != _MORE:
                kept[key] = value
        if not kept:
            return f"{{… {_count_of(len(members) + max(gone - 1, 0), 'key')}}}"
        more = len(members) - len(kept) + max(gone - 1, 0)
        spent = 2 + sum(len(_text(key)) + 4 for key in kept) + (_LEAST if more else 0)
        values = self._share(list(kept.values()), room - spent, depth=depth)
        shortened = dict(zip(kept, values, strict=True))
        return {**shortened, _MORE: _count_of(more, "more key")} if more else shortened

    def _share(self, values: list[Json], room: int, *, depth: int) -> list[Json]:
        """Return the values fitted into the room together: the small ones first, the rest in equal parts."""
        shares = [_Share(value, self._size(value, depth + 1)) for value in values]
        for number, share in enumerate(sorted(shares, key=lambda share: share.size)):
            share.room = min(share.size, max(room // (len(shares) - number), 0))
            room -= share.room
        return [self.fit(share.value, share.room, depth=depth + 1) for share in shares]


def _short_string(text: str, room: int) -> str:
    found = _MANY_CHARACTERS.search(text[-40:])
    before = int(found[1]) if found else 0
    whole = text[: len(text) - len(found[0])] if found else text
    kept = prefix(whole, most=max(room - _LEAST, 0))
    while kept and len(_text(kept)) > room - _LEAST:  # escaped characters take more
        fewer = len(kept) * max(room - _LEAST, 0) // len(_text(kept))
        kept = prefix(kept, most=min(fewer, len(kept) - 1))
    if not kept:
        return f"{_MORE} {_count_of(len(whole) + before, 'character')}"
    return f"{kept}… [{_count_of(len(whole) - len(kept) + before, 'more character')}]"


def _count_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _count(items: list[Json]) -> int:
    """Return how many items these stand for, with those that went before."""
    if len(items) > _MAX_ITEMS:
        return len(items)
    counted = (_MANY_ITEMS.fullmatch(each) for each in items if isinstance(each, str) and each.startswith(_MORE))
    return len(items) + sum(int(found[1]) - 1 for found in counted if found)


def _gone_keys(members: dict[str, Json]) -> int:
    """Return how many keys went before."""
    said = members.get(_MORE)
    found = _MANY_KEYS.fullmatch(said) if isinstance(said, str) else None
    return int(found[1]) if found else 0
