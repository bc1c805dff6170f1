"""A cache of recently used values, bounded by their number and their weight, and safe for threads.

`functools.lru_cache` bounds the number only, but the text of one tool may have five bytes or five mebibytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class WeightedLRU(Generic[Key, Value]):
    """Values by key; the least recently used values make room for new ones."""

    def __init__(self, *, most: int, heaviest: int) -> None:
        # A value weighs at least its share, so that the weight bounds the number as well.
        share = heaviest // most
        self._entries: LRUCache[Key, tuple[Value, int]] = LRUCache(heaviest, lambda entry: max(entry[1], share))
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value under this key, which becomes the most recently used one."""
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: Key, value: Value, *, weight: int = 1) -> None:
        """Keep a value, unless it alone is heavier than the whole cache may be."""
        with self._lock:
            try:
                self._entries[key] = value, weight
            except ValueError:  # `LRUCache` refuses a value that is larger than the cache
                return
