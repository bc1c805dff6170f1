"""Admission: how many calls run at once, and whose turn it is.

A bounded number of calls runs; the others wait, one line per tenant, and whoever gets in next is the first in the line
of the tenant that has waited longest for a turn. So one tenant's thousand calls delay another's by one call, not by a
thousand. A caller that stops waiting leaves its line at once.

A tool may say that its calls are not to overlap (`enable_parallel_execution = false`): it counts on something outside
that takes one at a time. Those of one tenant then go one after another, in a line of their own before the gate, where
they keep nobody else from a turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from weakref import WeakValueDictionary


class Turn:
    """One caller's turn, for the time of an `async with`."""

    __slots__ = ("_admission", "_tenant")

    def __init__(self, admission: FairLimiter, tenant: str) -> None:
        self._admission = admission
        self._tenant = tenant

    async def __aenter__(self) -> None:
        if not self._admission.enter_at_once():
            await self._admission.wait_in_line(self._tenant)

    async def __aexit__(self, *_: object) -> None:
        self._admission.leave()


class FairLimiter:
    """The gate of one engine, used from one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return sum(len(line) for line in self._lines.values())

    def turn(self, tenant: str) -> Turn:
        """Wait for a turn, and give it back at the end."""
        return Turn(self, tenant)

    def enter_at_once(self) -> bool:
        """Have a turn if one is free, and nobody waits for it; nearly always one is."""
        if self._free <= 0 or self._lines:
            return False
        self._free -= 1
        return True

    async def wait_in_line(self, tenant: str) -> None:
        """Have a turn as soon as it is this caller's."""
        place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()
            else:
                self._give_up(tenant, place)
            raise

    def leave(self) -> None:
        """Hand the turn to the next in line, or keep it free."""
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
    """Lines in which one goes after the other, by what they are for; one in which nobody stands is forgotten."""

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._lines)

    def turn(self, key: Hashable) -> asyncio.Lock:
        """Wait for a turn in this line, and give it back at the end, with `async with`."""
        return self._lines.setdefault(key, asyncio.Lock())
