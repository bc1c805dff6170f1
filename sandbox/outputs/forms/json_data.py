"""JSON that stays JSON: long strings, long arrays and deep branches are pruned, each with a count of what went.

Every value is given room. What fits into its room stays as it is; otherwise

* a string keeps its beginning: `"Once upon… [9000 more characters]"`;
* an array keeps its first items and its last: `[1, 2, "… 997 more items", 1000]`;
* an object keeps its first keys: `{"id": 1, "…": "12 more keys"}`;
* what has no room even for that is a count: `"{… 5 keys}"`, `"[… 7 items]"`, `"… 9000 characters"`, `"… 400 digits"`.

The room of a container is shared among the values that it keeps so that small ones stay whole and large ones get the
same each. The notice is the value of a key of its own, or the last item of an array. Pruning what was pruned before
adds to the counts. Only what is kept is looked at, however large the rest is.

What is called JSON and is none, or was too long to be kept, is shown from both ends like any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandbox.outcome import Json
from sandbox.outputs.cuts import prefix, suffix
from sandbox.outputs.ends import Ends, Parsed
from sandbox.outputs.forms.form import Fit
from sandbox.outputs.forms.two_ends import Cut, fit_ends
from sandbox.outputs.notices import Notice

_MORE: Final = "…"
_FRAME_OF_NOTICE: Final = 16  # `, "…": ""`, and longer where the value has such a key itself
_LEAST: Final = 24  # the longest of the plain counts
_WORTH: Final = 48  # an item with that much room says something
_DEEPEST: Final = 200
_MANY_ITEMS: Final = re.compile(r"… (\d{1,18}) more items")
_MANY_KEYS: Final = re.compile(r"(\d{1,18}) more keys")
_MANY_CHARACTERS: Final = re.compile(r"… \[(\d{1,18}) more characters\]\Z")
_STEPS: Final = (1.0, 0.85, 0.7, 0.5, 0.3, 0.15)


def json_data(ends: Ends, budget: int, notice: Notice) -> Fit:
    """The pruned value with the notice in it; both ends of what is no JSON."""
    parsed = ends.parsed or _parsed(ends)
    if parsed is None:
        return _both_ends(ends, budget, notice)
    for share in _STEPS:
        room = int((budget - _FRAME_OF_NOTICE) * share)
        if room < _LEAST:
            break
        pruned = prune(parsed.value, room=room)
        shown = len(_text(pruned))
        if shown <= budget - _FRAME_OF_NOTICE:
            return Fit(_text(_with_notice(pruned, notice.gap(shown=shown))), shown)
    return Fit(_text(notice.gap(shown=0)), 0)


def prune(value: Json, *, room: int) -> Json:
    """The value with about so many characters of JSON."""
    return _Pruning(most=room).fitted(value, room, depth=0)


def _parsed(ends: Ends) -> Parsed | None:
    if not ends.is_whole or not ends.head.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return Parsed(json.loads(ends.head))
    except (ValueError, RecursionError):
        return None


def _both_ends(ends: Ends, budget: int, notice: Notice) -> Fit:
    head = prefix(ends.head, most=budget // 2)
    return fit_ends(ends, Cut(head, suffix(ends.tail, most=budget - len(head))), notice)


def _with_notice(pruned: Json, notice: str) -> Json:
    if isinstance(pruned, dict):
        return {**pruned, _free_key(pruned): notice}
    if isinstance(pruned, list):
        return [*pruned, notice]
    return [pruned, notice]


def _free_key(taken: dict[str, Json]) -> str:
    """One that the value has not; a value that has them all loses the last."""
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
    """One value's pruning; it remembers how large the parts are that it has measured."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._sizes: dict[int, int] = {}

    def fitted(self, value: Json, room: int, *, depth: int) -> Json:
        if self._size(value, depth) <= room:
            return value
        if isinstance(value, str):
            return _short_string(value, room)
        if isinstance(value, list):
            return self._short_array(value, room, depth=depth)
        if isinstance(value, dict):
            return self._short_object(value, room, depth=depth)
        return f"… {len(_text(value))} digits"

    def _size(self, value: Any, depth: int) -> int:
        """The characters of its JSON; some number over the most there is room for when it is over that."""
        if isinstance(value, str):
            return len(value) + 2 if len(value) > self._most else len(_text(value))
        if not isinstance(value, list | dict):
            return len(_text(value))
        known = self._sizes.get(id(value))
        if known is None:
            known = self._sizes[id(value)] = self._measured(value, depth)
        return known

    def _measured(self, value: list[Json] | dict[str, Json], depth: int) -> int:
        if depth > _DEEPEST or 2 * len(value) > self._most:
            return self._most + 1
        size = max(2 * len(value), 2)
        parts: Sequence[Any] = value if isinstance(value, list) else list(value.values())
        if isinstance(value, dict):
            size += sum(len(_text(key)) + 2 for key in value)
        for part in parts:
            size += self._size(part, depth + 1)
            if size > self._most:
                break
        return size

    def _short_array(self, items: list[Json], room: int, *, depth: int) -> Json:
        each = min(max(self._size(items[0], depth + 1), 1) + 2, _WORTH)
        count = min((room - _LEAST - 2) // each, len(items))
        if count < 1:
            return f"[… {_count(items)} items]" if items else []
        first, last = items[: (count + 1) // 2], items[len(items) - count // 2 :]
        gone = items[len(first) : len(items) - len(last)]
        kept = self._shared([*first, *last], room - _LEAST - 2 - 2 * count, depth=depth)
        more: list[Json] = [f"{_MORE} {_count(gone)} more items"] if gone else []
        return [*kept[: len(first)], *more, *kept[len(first) :]]

    def _short_object(self, members: dict[str, Json], room: int, *, depth: int) -> Json:
        left, kept = room - _LEAST - 4, {}
        gone = _gone_keys(members)
        for key, value in members.items():
            needed = len(_text(key)) + 4
            least = min(self._size(value, depth + 1), _LEAST)
            if needed + least > left:
                break
            if key == _MORE and _gone_keys({key: value}):
                continue
            left -= needed + least
            kept[key] = value
        if not kept:
            return f"{{… {len(members) + gone} keys}}"
        spent = sum(len(_text(key)) + 4 for key in kept)
        values = self._shared(list(kept.values()), room - _LEAST - 4 - spent, depth=depth)
        more = len(members) - len(kept) + gone - (1 if gone else 0)
        return {**dict(zip(kept, values, strict=True)), **({_MORE: f"{more} more keys"} if more else {})}

    def _shared(self, values: list[Json], room: int, *, depth: int) -> list[Json]:
        """The values fitted so that together they take the room: the small ones first, the rest in equal parts."""
        shares = [_Share(value, self._size(value, depth + 1)) for value in values]
        for number, share in enumerate(sorted(shares, key=lambda share: share.size)):
            share.room = min(share.size, max(room // (len(shares) - number), 0))
            room -= share.room
        return [self.fitted(share.value, share.room, depth=depth + 1) for share in shares]


def _short_string(text: str, room: int) -> str:
    found = _MANY_CHARACTERS.search(text[-40:])
    before = int(found[1]) if found else 0
    whole = text[: len(text) - len(found[0])] if found else text
    kept = prefix(whole, most=max(room - 2 - len(f"… [{len(whole) + before} more characters]"), 0))
    while kept and len(_text(kept)) > room - 30:
        kept = prefix(kept, most=min(len(kept) * max(room - 30, 0) // len(_text(kept)), len(kept) - 1))
    if not kept:
        return f"{_MORE} {len(whole) + before} characters"
    return f"{kept}… [{len(whole) - len(kept) + before} more characters]"


def _count(items: list[Json]) -> int:
    """How many items these stand for, with those that went before."""
    counted = (_MANY_ITEMS.fullmatch(each) for each in items if isinstance(each, str) and each.startswith(_MORE))
    return len(items) + sum(int(found[1]) - 1 for found in counted if found)


def _gone_keys(members: dict[str, Json]) -> int:
    """How many keys went before."""
    said = members.get(_MORE)
    found = _MANY_KEYS.fullmatch(said) if isinstance(said, str) else None
    return int(found[1]) if found else 0
