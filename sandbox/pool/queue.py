"""The queue of one key: its boxes, the callers that wait for one, and the openings under way.

Boxes that serve many calls stay in `boxes` while they are leased. A single-use box is in `ready` until its one call
takes it, and never comes back. Nothing here blocks: a caller that finds no room joins the line, and whatever part of
the pool gets room serves the line in its order. So no caller waits while there is room, and a box that was handed out
counts as leased before its caller knows. A box that is lost leaves the queue at once.
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
    """The key by which calls share boxes."""

    environment: str
    policy: str
    tenant: str
    is_plain: bool = False
    copy: tuple[int, ...] = ()
    """Inode and time of the environment's folder, so that a box with a deleted copy is never reused."""


@dataclass(slots=True, eq=False)
class BoxQueue:
    """The boxes and the callers of one key."""

    key: BoxKey
    plan: BoxPlan
    """The plan of boxes that are not opened for one caller."""
    boxes: list[PooledBox] = field(default_factory=list)
    ready: list[PooledBox] = field(default_factory=list)
    wanted: int = 0
    """How many single-use boxes should be ready."""
    line: deque[asyncio.Future[Lease]] = field(default_factory=deque)
    queued: int = 0
    """Openings for the line that have not begun."""
    begun: int = 0
    """Openings under way, for the line or ahead."""
    ending: int = 0
    """Calls whose callers have their outcomes, and whose room is about to come back."""
    ahead: set[asyncio.Task[Exception | None]] = field(default_factory=set)
    """Openings ahead of callers, begun or not."""
    has_served: bool = False
    preloads: bool = True
    """Whether preloading leaves a process that can be forked. The boxes find that out."""
    memory: int = 0
    """The memory of one box at the last measurement."""
    opening_s: float = 0.0
    """How long the last opening took."""
    used_at: float = 0.0
    is_single_use: bool = field(init=False)
    """Whether each box runs one call only."""
    max_ahead: int = field(init=False)
    """How many single-use boxes may be ready."""

    def __post_init__(self) -> None:
        reuse = self.plan.policy.reuse
        self.is_single_use = reuse.mode is ReuseMode.NEVER
        self.max_ahead = reuse.ahead if self.is_single_use else 0

    @property
    def lacks_ready(self) -> bool:
        """Whether another single-use box should be ready."""
        return len(self.ready) < self.wanted

    @property
    def is_empty(self) -> bool:
        """Whether there is no box and no caller, and none on its way."""
        return not (self.boxes or self.ready or self.line or self.queued or self.begun or self.ahead)

    @property
    def idle(self) -> Iterator[PooledBox]:
        """The boxes without a call."""
        yield from self.ready
        yield from (pooled for pooled in self.boxes if pooled.leases == 0)

    def take(self) -> Lease | None:
        """Return a lease of a box with room, or None."""
        for pooled in self.boxes:
            if pooled.has_room:
                pooled.leases += 1
                return Lease(pooled, "warm")
        if self.ready:
            # The latest, so that boxes without use become idle and go.
            return self._lease(self.ready.pop(), "pooled")
        return None

    def join(self) -> asyncio.Future[Lease]:
        """Return a place in line, which becomes a lease or the reason for having none."""
        place = asyncio.get_running_loop().create_future()
        self.line.append(place)
        return place

    def leave(self, place: asyncio.Future[Lease]) -> Lease | None:
        """Remove the place of a caller that is gone, and return the lease that it got meanwhile."""
        if place in self.line:
            self.line.remove(place)
        return None if place.cancelled() or not place.done() or place.exception() else place.result()

    def serve(self, pooled: PooledBox, path: LeasePath) -> None:
        """Lease the room of a box to the callers in line."""
        while pooled.has_room and (place := self._next_in_line()) is not None:
            place.set_result(self._lease(pooled, path))

    def refuse(self, error: Exception, *, count: int) -> None:
        """Raise the error in the first `count` callers in line."""
        while count > 0 and (place := self._next_in_line()) is not None:
            place.set_exception(error)
            count -= 1

    def drop(self, pooled: PooledBox) -> None:
        """Lease a box no more. A single-use box that was ready is not replaced before a call finds none."""
        if pooled in self.boxes:
            self.boxes.remove(pooled)
        if pooled in self.ready:
            self.ready.remove(pooled)
            self.want_fewer()

    def want_more(self) -> None:
        """Raise the number of ready boxes, because a call found none or was the first."""
        self.wanted = min(max(2 * self.wanted, _FIRST_AHEAD), self.max_ahead)

    def want_fewer(self) -> None:
        """Lower the number of ready boxes, because one was not used or could not be kept."""
        self.wanted = max(self.wanted - 1, 0)

    def learn(self, plan: BoxPlan) -> None:
        """Open later boxes by the plan of this call, whose image may be newer.

        A single-use box may get any tool that was called, so it preloads the modules of all of them.
        """
        if not self.is_single_use:
            self.plan = plan
            return
        new = [name for name in plan.preload if name not in self.plan.preload]
        self.plan = replace(plan, preload=(*self.plan.preload, *new))
        for pooled in self.ready:
            pooled.preload(new)

    def has_newer_image(self, plan: BoxPlan) -> bool:
        """Return whether boxes use another image since that plan was made."""
        return self.plan.interpreter.image != plan.interpreter.image

    def _next_in_line(self) -> asyncio.Future[Lease] | None:
        while self.line:
            place = self.line.popleft()
            if not place.done():
                return place
        return None

    def _lease(self, pooled: PooledBox, path: LeasePath) -> Lease:
        pooled.leases += 1
        pooled.is_retired = self.is_single_use
        return Lease(pooled, path)
