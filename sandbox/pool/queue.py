"""All that a pool has for one key: boxes to lend, callers in line for one, and how many more are on their way.

Boxes that serve many calls stay in `boxes` while they are lent. A single-use box is in `ready` until its one call takes
it, and never comes back. Nothing here waits: a caller that finds no room gets a place in line, and whoever comes to
have room hands it out, in the order of the line. So nobody is in line while there is room, and a box that was handed
out is counted as lent at once, before the caller knows. A box that is lost is dropped at once, so none here is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from sandbox.backends.base import BoxPlan
from sandbox.policy import ReuseMode
from sandbox.pool.box import Lease, LeasePath, PooledBox

_FIRST_AHEAD: Final = 2


class BoxKey(NamedTuple):
    """What a box is for; calls with equal keys may share one."""

    environment: str
    policy: str
    tenant: str
    is_plain: bool = False
    copy: tuple[int, ...] = ()
    """Of its environment: boxes that show one which was removed are for nobody."""


@dataclass(slots=True, eq=False)
class BoxQueue:
    """The boxes and the callers of one key."""

    key: BoxKey
    plan: BoxPlan
    """What boxes are opened with that are not for one caller."""
    boxes: list[PooledBox] = field(default_factory=list)
    ready: list[PooledBox] = field(default_factory=list)
    wanted: int = 0
    """So many single-use boxes should be ready."""
    line: deque[asyncio.Future[Lease]] = field(default_factory=deque)
    queued: int = 0
    """Openings for the line that have not begun."""
    begun: int = 0
    """Openings under way, whoever they are for."""
    ending: int = 0
    """Calls whose callers have their outcomes, and whose rooms are about to come back."""
    ahead: set[asyncio.Task[Exception | None]] = field(default_factory=set)
    """Openings for nobody yet, begun or not."""
    has_lent: bool = False
    preloads: bool = True
    """Whether preloading leaves a process that can be forked; found out by its boxes."""
    memory: int = 0
    """What one of its boxes held when that was last looked at."""
    opening_s: float = 0.0
    """How long the last of its boxes took to open."""
    used_at: float = 0.0
    is_single_use: bool = field(init=False)
    """Whether a box of it runs one call only."""
    most_ahead: int = field(init=False)
    """So many single-use boxes may be kept ready."""

    def __post_init__(self) -> None:
        reuse = self.plan.policy.reuse
        self.is_single_use = reuse.mode is ReuseMode.NEVER
        self.most_ahead = reuse.ahead if self.is_single_use else 0

    @property
    def lacks_ready(self) -> bool:
        """Whether another single-use box is worth having."""
        return len(self.ready) < self.wanted

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing here, and nothing on its way."""
        return not (self.boxes or self.ready or self.line or self.queued or self.begun or self.ahead)

    @property
    def idle(self) -> Iterator[PooledBox]:
        """The boxes that nobody uses."""
        yield from self.ready
        yield from (pooled for pooled in self.boxes if pooled.lent == 0)

    def take(self) -> Lease | None:
        """Room for one call, if there is some."""
        for pooled in self.boxes:
            if pooled.has_room:
                pooled.lent += 1
                return Lease(pooled, "warm")
        if self.ready:
            return self._lent(self.ready.pop(), "pooled")  # the latest: those that nobody needs become idle, and go
        return None

    def enter_line(self) -> asyncio.Future[Lease]:
        """A place in line: it becomes a lease, or the reason why there is none."""
        place = asyncio.get_running_loop().create_future()
        self.line.append(place)
        return place

    def leave_line(self, place: asyncio.Future[Lease]) -> Lease | None:
        """The caller is gone; what it was handed meanwhile."""
        if place in self.line:
            self.line.remove(place)
        return None if place.cancelled() or not place.done() or place.exception() else place.result()

    def hand_out(self, pooled: PooledBox, path: LeasePath) -> None:
        """Its room goes to who is in line."""
        while pooled.has_room and (place := self._next_in_line()) is not None:
            place.set_result(self._lent(pooled, path))

    def refuse(self, error: Exception, *, most: int) -> None:
        """Tell so many of those in line, the first ones, why there is no box."""
        while most > 0 and (place := self._next_in_line()) is not None:
            place.set_exception(error)
            most -= 1

    def drop(self, pooled: PooledBox) -> None:
        """Lend it no more. One that was ready in vain is not missed before the next call that finds none."""
        if pooled in self.boxes:
            self.boxes.remove(pooled)
        if pooled in self.ready:
            self.ready.remove(pooled)
            self.want_fewer()

    def want_more(self) -> None:
        """A call found no box ready, or was the first."""
        self.wanted = min(max(2 * self.wanted, _FIRST_AHEAD), self.most_ahead)

    def want_fewer(self) -> None:
        """A box was ready for nobody, or could not be kept ready."""
        self.wanted = max(self.wanted - 1, 0)

    def learn(self, plan: BoxPlan) -> None:
        """Open later boxes as this call's would be: its image may be newer than the one before. Single-use boxes may be
        for any tool that was called, so they have what all of those import."""
        if not self.is_single_use:
            self.plan = plan
            return
        new = [name for name in plan.preload if name not in self.plan.preload]
        self.plan = replace(plan, preload=(*self.plan.preload, *new))
        for pooled in self.ready:
            pooled.preload(new)

    def has_newer_image(self, plan: BoxPlan) -> bool:
        """Whether boxes are made from another image since that was planned."""
        return self.plan.interpreter.image != plan.interpreter.image

    def _next_in_line(self) -> asyncio.Future[Lease] | None:
        while self.line:
            place = self.line.popleft()
            if not place.done():
                return place
        return None

    def _lent(self, pooled: PooledBox, path: LeasePath) -> Lease:
        pooled.lent += 1
        pooled.is_retired = self.is_single_use
        return Lease(pooled, path)
