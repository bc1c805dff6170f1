"""Pages that a box is about to ask for, asked for while it opens.

The indexes are asked as the resolver will ask them: all where it goes on past one that has the package, else the next
only when the one before has no such package; and none after one that failed. Whatever comes of it (a page, that there
is none, a fault) is given to the box when it asks for that page, once, as if it had been found out then. Of what the
box never asks for nobody hears, and what it asks for before its turn came is left to it: nothing is asked for twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final

from sandbox.environments.indexes.answers import Absent

_MOST_NAMES: Final = 16
"""For each there is a thread."""

_Key = tuple[int, str]


class PagesAhead:
    """Asks for pages by `read`, which is given the number of an index and the name of a package."""

    def __init__(self, read: Callable[[int, str], bytes], *, indexes: int, goes_on: bool) -> None:
        self._read = read
        self._indexes = indexes
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._asked: dict[_Key, Future[bytes] | None] = {}
        """None where the box was given the page, or left to ask for it."""

    def begin(self, names: Iterable[str]) -> None:
        """Ask for the pages of these, the first few of them."""
        for name in list(dict.fromkeys(names))[:_MOST_NAMES]:
            threading.Thread(target=self._ask_all, args=(name,), name="page", daemon=True).start()

    def page(self, number: int, name: str) -> bytes:
        """The page, asked for ahead or now."""
        with self._lock:
            asked = self._asked.get((number, name))
            self._asked[number, name] = None
        return self._read(number, name) if asked is None else asked.result()

    def stop(self) -> None:
        """Ask for nothing more."""
        self._indexes = 0

    def _ask_all(self, name: str) -> None:
        number = 0
        while number < self._indexes and self._ask(number, name):
            number += 1

    def _ask(self, number: int, name: str) -> bool:
        """Ask one index, unless the box has; whether the next would be asked as well."""
        with self._lock:
            if (number, name) in self._asked:
                return self._goes_on
            found = self._asked[number, name] = Future()
        try:
            found.set_result(self._read(number, name))
        except Exception as problem:  # whatever it is, it is the box's answer
            found.set_exception(problem)
            return isinstance(problem, Absent)
        return self._goes_on
