"""Admission: how many calls run at once, and whose turn it is.

A bounded number of calls runs; the others wait, one line per tenant, and whoever gets in next is the first in the line
of the tenant that has waited longest for a turn. So one tenant's thousand calls delay another's by one call, not by a
thousand. A caller that stops waiting leaves its line at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """The gate of one engine, used from one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return sum(len(line) for line in self._lines.values())

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a turn, and give it back at the end."""
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, tenant: str) -> None:
        if self._free > 0 and not self._lines:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()
            else:
                self._give_up(tenant, place)
            raise

    def _leave(self) -> None:
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
