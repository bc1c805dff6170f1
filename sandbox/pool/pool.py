"""The pool: boxes lent for calls and taken back, kept for one (environment, policy, tenant) each.

A box serves as many calls at once as it has room for; every call is walled from the others inside it (see the runner),
so a box is not lent exclusively. It leaves the pool when its policy forbids reuse, when a call in it did not end
cleanly, when it has been idle too long, when it is older than its backend lets boxes become, when too much memory or
too many boxes are kept warm, or when it died. A box that leaves takes no new calls, ends when its last call has, and is
closed exactly once.

A caller that finds no room goes in line for the next room there is, in a box that became free or in one that was
opened for it or for somebody else. Openings belong to the pool, not to callers: one that gives up costs nobody a box,
and a box opened in vain stays warm. See `shelf` for the line, and `supply` for what is opened when.

Where the policy forbids reuse, boxes are opened ahead instead: once a key has had a call, so many as its policy says
are kept ready, each for one call, and replaced when they are taken. One that nobody took for the policy's idle time
goes, and is not replaced until a call finds none ready.
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
from sandbox.protocol.running_call import RunningCall

__all__ = ["BoxKey", "Lease", "Pool", "PoolStatistics", "PooledBox"]

_SWEEP_S: Final = 1.0
_SOON_S: Final = 0.02
_NOT_SOON_S: Final = 0.25
_DESCRIPTORS: Final = 24
"""About as many as a box takes of its engine's process."""
_ANY_NUMBER: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """What a pool holds now, each box in one of the first four numbers, and how calls came by their boxes so far."""

    warm: int
    """Boxes that have no call now and will serve further ones."""
    ready: int
    """Single-use boxes, opened ahead of their call."""
    opening: int
    lent: int
    """Boxes with calls in them."""
    cold_calls: int
    """Calls that had to wait until a box was open."""
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
    """One lease, for the time of an `async with`; as a generator it would cost every call twice as much."""

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
        self._supply = BoxScheduler(
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
        """Every box that could be lent."""
        return tuple(pooled for queue in self._queues.values() for pooled in (*queue.boxes, *queue.ready))

    @property
    def statistics(self) -> PoolStatistics:
        """What there is now, and what has been."""
        queues = self._queues.values()
        return PoolStatistics(
            warm=sum(pooled.lent == 0 for queue in queues for pooled in queue.boxes),
            ready=sum(len(queue.ready) for queue in queues),
            opening=sum(queue.begun for queue in queues),
            lent=sum(pooled.lent > 0 for pooled in self._opener.open_boxes),
            cold_calls=self._calls["cold"],
            pooled_calls=self._calls["pooled"],
            warm_calls=self._calls["warm"],
        )

    def lease(self, key: BoxKey, plan: BoxPlan) -> LeaseContext:
        """A box with room for one call, open already if there is one; retire it if the call does not end cleanly."""
        return LeaseContext(self, key, plan)

    async def acquire(self, key: BoxKey, plan: BoxPlan) -> tuple[Lease, BoxQueue]:
        """The same, for whoever takes it back."""
        queue = self._queues.get(key) or self._new_queue(key, plan)
        lease = queue.take() or await self._wait_in_line(queue, plan)
        self._calls[lease.path] += 1
        try:
            if queue.is_single_use:
                self._note_demand(queue, plan)
                self._supply.fill(queue)
            if lease.pooled.session.loss is None:
                lease.pooled.ensure_slots()
        except BaseException:
            self.release(lease, queue)
            raise
        return lease, queue

    def release(self, lease: Lease, queue: BoxQueue) -> None:
        """The lease is over as far as its caller goes."""
        if lease.call is None:
            self._take_back(lease.pooled, queue)
        else:
            self._take_back_when_ended(lease.call, lease.pooled, queue)

    @asynccontextmanager
    async def lease_exclusively(self, plan: BoxPlan) -> AsyncIterator[Lease]:
        """A box for one call, shared with nobody; it is gone, and not just going, when this ends."""
        self._refuse_when_closed()
        pooled = await self._opener.open(plan)
        pooled.is_retired = True
        pooled.lent += 1
        try:
            self._refuse_when_closed()
            pooled.ensure_slots()
            yield Lease(pooled, "cold")
        finally:
            await self._opener.close(pooled)

    async def prepare(self, key: BoxKey, plan: BoxPlan) -> None:
        """Have room for calls like this before the first comes: a warm box, or as many single-use boxes as the policy
        keeps ready. Raises what a call would find out: that such a box cannot be."""
        queue = self._queues.get(key) or self._new_queue(key, plan)
        if queue.most_ahead:
            self._note_demand(queue, plan)
            queue.wanted = queue.most_ahead
            try:
                await self._supply.filled(queue)
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
            queue.refuse(EngineClosed("the engine was closed while a box was opening"), most=len(queue.line))
        self._queues.clear()
        await self._supply.stop()
        for pooled in list(self._opener.open_boxes):
            pooled.lent = 0
            pooled.is_retired = True
            self._opener.close_soon(pooled)
        await self._opener.all_closed()

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    def _new_queue(self, key: BoxKey, plan: BoxPlan) -> BoxQueue:
        self._refuse_when_closed()
        queue = self._queues[key] = BoxQueue(key, plan, used_at=_now())
        self._start_sweeping()
        return queue

    async def _wait_in_line(self, queue: BoxQueue, plan: BoxPlan) -> Lease:
        """The next room that there is. The first call of a key does not tell whether boxes are worth opening ahead;
        it is looked at again when it is over."""
        queue.learn(plan)
        if queue.has_lent:
            queue.want_more()
            self._supply.fill(queue)
        place = queue.enter_line()
        self._supply.open_missing(queue, plan)
        if queue.ending:  # one that does not end soon, for what another box takes to open, is not waited for
            open_anyway = partial(self._supply.open_missing, queue, plan, counts_ending=False)
            soon = max(_SOON_S, min(queue.opening_s / 2, _NOT_SOON_S))
            asyncio.get_running_loop().call_later(soon, open_anyway)
        try:
            return await place
        except asyncio.CancelledError:
            unused = queue.leave_line(place)
            if unused is not None:
                self._take_unused(unused.pooled, queue)
            raise
        except SandboxError as error:
            raise error_for(plan.policy, error) from None

    def _note_demand(self, queue: BoxQueue, plan: BoxPlan) -> None:
        queue.has_lent = True
        queue.used_at = _now()
        queue.learn(plan)

    def _take_back_when_ended(self, call: RunningCall, pooled: PooledBox, queue: BoxQueue) -> None:
        """A caller may have its outcome a moment before the call's last process is gone."""
        is_coming_back = not pooled.is_retired

        def ended(_: object) -> None:
            queue.ending -= is_coming_back
            self._take_back(pooled, queue)

        queue.ending += is_coming_back
        call.ended.add_done_callback(ended)

    def _take_back(self, pooled: PooledBox, queue: BoxQueue) -> None:
        pooled.lent -= 1
        pooled.idle_since = asyncio.get_running_loop().time()
        if pooled.is_retired or pooled.session.loss is not None or pooled.is_past_its_time:
            self._supply.retire(pooled, queue)
            self._note_end(queue)
            self._supply.open_missing(queue, queue.plan)
        else:
            pooled.ensure_slots()
            pooled.session.offer_pipes()
            if queue.line:
                queue.hand_out(pooled, "warm")

    def _note_end(self, queue: BoxQueue) -> None:
        """A single-use box has had its call: others will need theirs."""
        if queue.most_ahead and not self._is_closed and self._queues.setdefault(queue.key, queue) is queue:
            queue.used_at = _now()
            if not queue.wanted:
                queue.want_more()
            self._supply.fill(queue)
            self._start_sweeping()

    def _take_unused(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """The caller it was handed to had gone."""
        if queue.is_single_use and not pooled.is_closing:
            pooled.lent = 0
            pooled.is_retired = False
            self._supply.keep(pooled, queue)
        else:
            self._take_back(pooled, queue)

    def _has_memory(self, queue: BoxQueue) -> bool:
        """Whether one more of its boxes may be kept ready. What others keep for nobody does not count: the longest idle
        go when there is too much."""
        in_use = sum(pooled.memory for pooled in self.boxes if pooled.lent)
        of_its_own = queue.memory * (len(queue.ready) + len(queue.ahead) + 1)
        return in_use + of_its_own <= self._max_memory

    def _longest_idle(self) -> list[tuple[PooledBox, BoxQueue]]:
        """The boxes that nobody uses, the longest idle first."""
        idle = [(pooled, queue) for queue in self._queues.values() for pooled in queue.idle]
        return sorted(idle, key=lambda each: each[0].idle_since)

    def _kept_memory(self) -> int:
        return sum(pooled.memory for pooled in self.boxes)

    def _start_sweeping(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Retire what has been idle too long, and the longest idle while too much is kept warm."""
        while self._queues:
            await asyncio.sleep(_SWEEP_S)
            self._weigh()
            for pooled, queue in self._longest_idle():
                is_old = pooled.is_past_its_time or _now() - pooled.idle_since > pooled.policy.reuse.idle
                is_too_much = self._kept_memory() > self._max_memory
                if is_old or is_too_much or len(self._opener.open_boxes) > self._max_boxes:
                    self._supply.retire(pooled, queue)
            self._forget_unused()

    def _weigh(self) -> None:
        for queue in self._queues.values():
            for pooled in (*queue.boxes, *queue.ready):
                pooled.memory = queue.memory = pooled.box.memory_bytes()

    def _forget_unused(self) -> None:
        """A key that nobody uses leaves nothing."""
        for key, queue in list(self._queues.items()):
            if queue.is_bare and _now() - queue.used_at > queue.plan.policy.reuse.idle:
                del self._queues[key]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _affordable_boxes() -> int:
    """As many as take half of the files that this process may open: the others are the host program's."""
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ANY_NUMBER if most_files == resource.RLIM_INFINITY else max(1, most_files // 2 // _DESCRIPTORS)
