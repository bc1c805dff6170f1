"""The most recently used results, bounded by their number and by their weight.

`functools.lru_cache` bounds only the number; one tool's text may be five bytes or five mebibytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class WeightedLRU(Generic[Key, Value]):
    """Remembers values until newer ones need the room; safe to use from several threads."""

    def __init__(self, *, most: int, heaviest: int) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weight = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value kept under this key, which becomes the most recent one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value, *, weight: int = 1) -> None:
        """Keep a value, unless it alone is too heavy; the least recently used ones make room."""
        if weight > self._heaviest:
            return
        with self._lock:
            self._forget(key)
            self._entries[key] = (value, weight)
            self._weight += weight
            while len(self._entries) > self._most or self._weight > self._heaviest:
                self._forget(next(iter(self._entries)))

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]
