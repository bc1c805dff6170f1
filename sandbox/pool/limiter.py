"""Limiters: how many calls run at once, and whose turn is next.

A bounded number of calls runs. The others wait, in one line per tenant, and the next turn goes to the first in the line
of the tenant that has waited longest for a turn. So one tenant's thousand calls delay another tenant by one call, not
by a thousand. A caller that stops waiting leaves its line at once.

A tool may declare that its calls must not overlap (`enable_parallel_execution = false`), because it uses something that
takes one call at a time. The calls of one tenant then wait for a lock before they wait for a turn, so that they take no
turn from other callers meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from weakref import WeakValueDictionary


class Turn:
    """The turn of a caller, for the time of an `async with`."""

    __slots__ = ("_limiter", "_tenant")

    def __init__(self, limiter: FairLimiter, tenant: str) -> None:
        self._limiter = limiter
        self._tenant = tenant

    async def __aenter__(self) -> None:
        if not self._limiter.try_acquire():
            await self._limiter.acquire(self._tenant)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release()


class FairLimiter:
    """Bounds how many callers proceed at once, fairly between tenants. Used from one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return sum(len(line) for line in self._lines.values())

    def turn(self, tenant: str) -> Turn:
        """Return a context manager that waits for a turn and gives it back."""
        return Turn(self, tenant)

    def try_acquire(self) -> bool:
        """Take a turn if one is free and no caller waits. Nearly always one is free."""
        if self._free <= 0 or self._lines:
            return False
        self._free -= 1
        return True

    async def acquire(self, tenant: str) -> None:
        """Wait in line for a turn."""
        place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            else:
                self._give_up(tenant, place)
            raise

    def release(self) -> None:
        """Pass the turn to the next in line, or keep it free."""
        while self._lines:
            tenant, line = self._lines.popitem(last=False)
            place = line.popleft()
            if line:
                self._lines[tenant] = line
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _give_up(self, tenant: str, place: asyncio.Future[None]) -> None:
        line = self._lines.get(tenant)
        if line and place in line:
            line.remove(place)
            if not line:
                del self._lines[tenant]


class KeyedLocks:
    """A lock for each key. Unused locks are garbage-collected."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def turn(self, key: Hashable) -> asyncio.Lock:
        """Return the lock of a key, to be held with `async with`."""
        return self._locks.setdefault(key, asyncio.Lock())
