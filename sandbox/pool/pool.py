"""The pool: boxes leased to calls and kept open between them, for one (environment, policy, tenant) each.

A box serves as many calls at once as it has room for. Every call is isolated from the others inside the box, so a box
is not leased exclusively. The pool retires a box when its policy forbids reuse, when a call in it did not end cleanly,
when the box has been idle too long, is older than its backend allows, or died, and when too many boxes or too much
memory are kept. A retired box takes no new calls, ends when its last call has ended, and is closed exactly once.

A caller that finds no room waits in line for the next room, in a box that became free or in a new one. Openings belong
to the pool, not to callers: a caller that gives up costs no other caller a box, and a box that was opened for it stays
warm. See `queue` for the line, and `scheduler` for the openings.

If the policy forbids reuse, boxes are opened ahead instead. Once a key has had a call, the pool keeps as many boxes
ready as the policy says, each for one call, and replaces those that calls take. A box that no call takes for the
policy's idle time is closed, and not replaced until a call finds none ready.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from sandbox.backends.base import Backend, BoxPlan
from sandbox.backends.hints import error_for
from sandbox.errors import EngineClosed, SandboxError
from sandbox.pool.box import Lease, LeasePath, PooledBox
from sandbox.pool.opener import BoxOpener
from sandbox.pool.queue import BoxKey, BoxQueue
from sandbox.pool.scheduler import BoxScheduler

_SWEEP_S: Final = 1.0
_MIN_PATIENCE_S: Final = 0.02
_MAX_PATIENCE_S: Final = 0.25
_DESCRIPTORS: Final = 24
"""About as many descriptors as a box takes in its engine's process."""
_UNLIMITED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """The boxes of a pool now, and how calls got theirs so far. The first four numbers count each box once."""

    warm: int
    """Boxes that have no call now and serve further ones."""
    ready: int
    """Single-use boxes, opened ahead of their call."""
    opening: int
    lent: int
    """Boxes with calls in them."""
    cold_calls: int
    """Calls that waited until a box was open."""
    pooled_calls: int
    """Calls that found a single-use box ready."""
    warm_calls: int
    """Calls that found room in a box that had served others."""

    @property
    def calls(self) -> int:
        """All calls so far."""
        return self.cold_calls + self.pooled_calls + self.warm_calls

    @property
    def hit_rate(self) -> float:
        """The share of calls that did not wait for a box to open; 0 before the first call."""
        return (self.pooled_calls + self.warm_calls) / self.calls if self.calls else 0.0


class LeaseContext:
    """A lease, for the time of an `async with`."""

    # A class, because a generator would cost every call twice as much.
    __slots__ = ("_key", "_lease", "_plan", "_pool", "_queue")

    def __init__(self, pool: Pool, key: BoxKey, plan: BoxPlan) -> None:
        self._pool, self._key, self._plan = pool, key, plan
        self._lease: Lease
        self._queue: BoxQueue

    async def __aenter__(self) -> Lease:
        self._lease, self._queue = await self._pool.acquire(self._key, self._plan)
        return self._lease

    async def __aexit__(self, *_: object) -> None:
        self._pool.release(self._lease, self._queue)


class Pool:
    """All boxes of one engine; used from one event loop."""

    def __init__(
        self, backend: Backend, *, max_memory: int, max_opening: int | None = None, max_boxes: int | None = None
    ) -> None:
        self._opener = BoxOpener(backend)
        self._max_boxes = max_boxes or _affordable_boxes()
        self._scheduler = BoxScheduler(
            backend,
            self._opener,
            has_memory=self._has_memory,
            longest_idle=self._longest_idle,
            max_opening=max_opening or max(2, 2 * (os.cpu_count() or 1)),
            max_boxes=self._max_boxes,
        )
        self._max_memory = max_memory
        self._queues: dict[BoxKey, BoxQueue] = {}
        self._calls: dict[LeasePath, int] = {"cold": 0, "pooled": 0, "warm": 0}
        self._sweeper: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def boxes(self) -> tuple[PooledBox, ...]:
        """Every box that can be leased."""
        return tuple(pooled for queue in self._queues.values() for pooled in (*queue.boxes, *queue.ready))

    @property
    def statistics(self) -> PoolStatistics:
        """The boxes now, and the calls so far."""
        queues = self._queues.values()
        return PoolStatistics(
            warm=sum(pooled.leases == 0 for queue in queues for pooled in queue.boxes),
            ready=sum(len(queue.ready) for queue in queues),
            opening=sum(queue.begun for queue in queues),
            lent=sum(pooled.leases > 0 for pooled in self._opener.open_boxes),
            cold_calls=self._calls["cold"],
            pooled_calls=self._calls["pooled"],
            warm_calls=self._calls["warm"],
        )

    def lease(self, key: BoxKey, plan: BoxPlan) -> LeaseContext:
        """Return a context manager that leases a box with room for one call.

        The caller retires the box if its call does not end cleanly.
        """
        return LeaseContext(self, key, plan)

    async def acquire(self, key: BoxKey, plan: BoxPlan) -> tuple[Lease, BoxQueue]:
        """Lease a box, for a caller that passes the result to `release`."""
        queue = self._queues.get(key) or self._new_queue(key, plan)
        lease = queue.take() or await self._wait_in_line(queue, plan)
        self._calls[lease.path] += 1
        try:
            if queue.is_single_use:
                self._note_demand(queue, plan)
                self._scheduler.fill(queue)
            if lease.pooled.session.loss is None:
                lease.pooled.ensure_slots()
        except BaseException:
            self.release(lease, queue)
            raise
        return lease, queue

    def release(self, lease: Lease, queue: BoxQueue) -> None:
        """Take the box back, at once or when its call has ended."""
        call, pooled = lease.call, lease.pooled
        if call is None:
            self._take_back(pooled, queue)
            return
        # A caller may have its outcome a moment before the call's last process is gone.
        is_coming_back = not pooled.is_retired

        def take_back(_: object) -> None:
            queue.ending -= is_coming_back
            self._take_back(pooled, queue)

        queue.ending += is_coming_back
        call.ended.add_done_callback(take_back)

    @asynccontextmanager
    async def lease_exclusively(self, plan: BoxPlan) -> AsyncIterator[Lease]:
        """Lease a new box for one call. The box is gone when the context ends."""
        self._refuse_if_closed()
        pooled = await self._opener.open(plan)
        pooled.is_retired = True
        pooled.leases += 1
        try:
            self._refuse_if_closed()
            pooled.ensure_slots()
            yield Lease(pooled, "cold")
        finally:
            await self._opener.close(pooled)

    async def prepare(self, key: BoxKey, plan: BoxPlan) -> None:
        """Open a warm box before the first call, or as many single-use boxes as the policy keeps ready.

        Raise the error that a call would get if such a box cannot be opened.
        """
        queue = self._queues.get(key) or self._new_queue(key, plan)
        if queue.max_ahead:
            self._note_demand(queue, plan)
            queue.wanted = queue.max_ahead
            try:
                await self._scheduler.filled(queue)
            except SandboxError as error:
                raise error_for(plan.policy, error) from None
        if not queue.ready:
            lease = queue.take() or await self._wait_in_line(queue, plan)
            lease.pooled.preload(plan.preload)
            self._take_back(lease.pooled, queue)

    async def close(self) -> None:
        """Close every box, busy or not."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for queue in self._queues.values():
            queue.refuse(EngineClosed("the engine was closed while a box was opening"), count=len(queue.line))
        self._queues.clear()
        await self._scheduler.stop()
        for pooled in list(self._opener.open_boxes):
            pooled.leases = 0
            pooled.is_retired = True
            self._opener.close_soon(pooled)
        await self._opener.all_closed()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    def _new_queue(self, key: BoxKey, plan: BoxPlan) -> BoxQueue:
        self._refuse_if_closed()
        queue = self._queues[key] = BoxQueue(key, plan, used_at=_now())
        self._start_sweeping()
        return queue

    async def _wait_in_line(self, queue: BoxQueue, plan: BoxPlan) -> Lease:
        """Wait for the next room."""
        queue.learn(plan)
        # The first call of a key does not show whether boxes are worth opening ahead. `_note_end` looks again.
        if queue.has_served:
            queue.want_more()
            self._scheduler.fill(queue)
        place = queue.join()
        self._scheduler.open_missing(queue, plan)
        if queue.ending:
            # If the ending call takes longer than the opening of another box would, open that box.
            open_anyway = partial(self._scheduler.open_missing, queue, plan, counts_ending=False)
            patience = max(_MIN_PATIENCE_S, min(queue.opening_s / 2, _MAX_PATIENCE_S))
            asyncio.get_running_loop().call_later(patience, open_anyway)
        try:
            return await place
        except asyncio.CancelledError:
            unused = queue.leave(place)
            if unused is not None:
                self._take_unused(unused.pooled, queue)
            raise
        except SandboxError as error:
            raise error_for(plan.policy, error) from None

    def _note_demand(self, queue: BoxQueue, plan: BoxPlan) -> None:
        queue.has_served = True
        queue.used_at = _now()
        queue.learn(plan)

    def _take_back(self, pooled: PooledBox, queue: BoxQueue) -> None:
        pooled.leases -= 1
        pooled.idle_since = asyncio.get_running_loop().time()
        if pooled.is_retired or pooled.session.loss is not None or pooled.is_expired:
            self._scheduler.retire(pooled, queue)
            self._note_end(queue)
            self._scheduler.open_missing(queue, queue.plan)
        else:
            pooled.ensure_slots()
            pooled.session.offer_pipes()
            if queue.line:
                queue.serve(pooled, "warm")

    def _note_end(self, queue: BoxQueue) -> None:
        """Open boxes ahead after a single-use box had its call."""
        if queue.max_ahead and not self._is_closed and self._queues.setdefault(queue.key, queue) is queue:
            queue.used_at = _now()
            if not queue.wanted:
                queue.want_more()
            self._scheduler.fill(queue)
            self._start_sweeping()

    def _take_unused(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """Take back a box whose caller was gone before it got the box."""
        if queue.is_single_use and not pooled.is_closing:
            pooled.leases = 0
            pooled.is_retired = False
            self._scheduler.keep(pooled, queue)
        else:
            self._take_back(pooled, queue)

    def _has_memory(self, queue: BoxQueue) -> bool:
        """Return whether one more box of the queue may be kept ready."""
        # Idle boxes of other queues do not count: the longest idle are closed if there is too much.
        in_use = sum(pooled.memory for pooled in self.boxes if pooled.leases)
        ready = queue.memory * (len(queue.ready) + len(queue.ahead) + 1)
        return in_use + ready <= self._max_memory

    def _longest_idle(self) -> list[tuple[PooledBox, BoxQueue]]:
        """Return the boxes without a call, the longest idle first."""
        idle = [(pooled, queue) for queue in self._queues.values() for pooled in queue.idle]
        return sorted(idle, key=lambda each: each[0].idle_since)

    def _kept_memory(self) -> int:
        return sum(pooled.memory for pooled in self.boxes)

    def _start_sweeping(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Retire boxes that are idle too long, and the longest idle while too much is kept."""
        while self._queues:
            await asyncio.sleep(_SWEEP_S)
            self._measure_memory()
            for pooled, queue in self._longest_idle():
                is_old = pooled.is_expired or _now() - pooled.idle_since > pooled.policy.reuse.idle
                is_too_much = self._kept_memory() > self._max_memory
                if is_old or is_too_much or len(self._opener.open_boxes) > self._max_boxes:
                    self._scheduler.retire(pooled, queue)
            self._forget_unused()

    def _measure_memory(self) -> None:
        for queue in self._queues.values():
            for pooled in (*queue.boxes, *queue.ready):
                pooled.memory = queue.memory = pooled.box.memory_bytes()

    def _forget_unused(self) -> None:
        for key, queue in list(self._queues.items()):
            if queue.is_empty and _now() - queue.used_at > queue.plan.policy.reuse.idle:
                del self._queues[key]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _affordable_boxes() -> int:
    """Return how many boxes take half of the files that this process may open. The rest is the host program's."""
    max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if max_files == resource.RLIM_INFINITY else max(1, max_files // 2 // _DESCRIPTORS)
