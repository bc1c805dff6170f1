"""The scheduler of a pool: how many boxes to open, when, in what order, and for which callers.

The scheduler opens as many boxes as the callers in line need, and ahead as many as single-use calls are expected to
take. The number of openings at once is bounded. Their turns go round the tenants, at most half of them to openings
ahead, and each opening checks at its turn whether its box is still needed. An open box serves the line, then waits in
the queue, or is closed if it is not wanted. So each box has an owner at any time, however callers come and go.

Idle boxes make room for others: the number of boxes is bounded, and if one cannot be opened because the host ran out of
files or processes, the scheduler closes some idle boxes and tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from sandbox.backends.base import Backend, BoxPlan, ImageGone
from sandbox.backends.hints import remedy_of_shortage
from sandbox.errors import CallNotStarted, EngineClosed, SandboxError
from sandbox.pool.box import PooledBox
from sandbox.pool.limiter import FairLimiter
from sandbox.pool.opener import CALL_AGAIN, BoxOpener
from sandbox.pool.queue import BoxQueue

# A call that took a box should not compete with the opening of the next one at once.
_PAUSE_S: Final = 0.02
_UNKNOWN_CAPACITY: Final = 1 << 20
_SHARE_CLOSED: Final = 4
"""The divisor of the idle boxes that are closed to make room."""

Opening: TypeAlias = asyncio.Task[Exception | None]
"""Ends with the reason for having no box, or None."""


class BoxScheduler:
    """Opens boxes for queues."""

    def __init__(
        self,
        backend: Backend,
        opener: BoxOpener,
        *,
        has_memory: Callable[[BoxQueue], bool],
        longest_idle: Callable[[], Sequence[tuple[PooledBox, BoxQueue]]],
        max_opening: int,
        max_boxes: int,
    ) -> None:
        self._backend = backend
        self._opener = opener
        self._has_memory = has_memory
        self._longest_idle = longest_idle
        self._max_boxes = max_boxes
        self._turns = FairLimiter(max_opening)
        self._turns_ahead = FairLimiter(max(1, max_opening // 2))
        self._openings: set[Opening] = set()
        self._seen_capacity: int | None = None
        self._is_stopped = False

    def open_missing(self, queue: BoxQueue, plan: BoxPlan, *, counts_ending: bool = True) -> None:
        """Begin an opening for every caller in line that gets no room from a call that is just ending."""
        in_line = len(queue.line) - (queue.ending if counts_ending else 0)
        while not self._is_stopped and (queue.queued + queue.begun) * self._capacity(queue) < in_line:
            queue.queued += 1
            self._begin(self._open_for_line(queue, plan))

    def fill(self, queue: BoxQueue, *, pause: float = _PAUSE_S) -> None:
        """Begin as many openings as single-use boxes are wanted, if there is memory for them."""
        while not self._is_stopped and len(queue.ready) + len(queue.ahead) < queue.wanted and self._has_memory(queue):
            queue.ahead.add(self._begin(self._open_ahead(queue, pause)))

    async def filled(self, queue: BoxQueue) -> None:
        """Fill the queue and wait for that. Raise the reason of the first opening that failed.

        The openings go on if the caller is cancelled.
        """
        self.fill(queue, pause=0.0)
        done, _ = await asyncio.wait(set(queue.ahead)) if queue.ahead else (set(), None)
        for opening in done:
            if opening.cancelled():
                raise EngineClosed("the engine was closed while a box was opening")
            error = opening.result()
            if error is not None:
                raise error

    def keep(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """Use a new box for the line, for later calls, or close it."""
        pooled.idle_since = asyncio.get_running_loop().time()
        pooled.session.on_loss = lambda: self.retire(pooled, queue)
        pooled.session.on_unfit = lambda: self._stop_preloading(pooled, queue)
        queue.serve(pooled, "cold")
        if queue.is_single_use and pooled.leases:
            return
        if pooled.session.loss is not None or (queue.is_single_use and not queue.lacks_ready):
            self.retire(pooled, queue)
        elif queue.is_single_use:
            pooled.expect_only_call()
            queue.ready.append(pooled)
        else:
            queue.boxes.append(pooled)

    def retire(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """Lease a box no more, and close it as soon as no call uses it."""
        pooled.is_retired = True
        queue.drop(pooled)
        if pooled.leases <= 0:
            self._opener.close_soon(pooled)

    def _stop_preloading(self, pooled: PooledBox, queue: BoxQueue) -> None:
        # The import of a later tool left something in the box that calls cannot share. Later boxes would do the same.
        queue.preloads = False
        self.retire(pooled, queue)

    async def stop(self) -> None:
        """End every opening."""
        self._is_stopped = True
        for opening in list(self._openings):
            opening.cancel()
        await asyncio.gather(*self._openings, return_exceptions=True)

    def _capacity(self, queue: BoxQueue) -> int:
        """Return how many callers one box serves. Until that is known, one box is expected to serve all."""
        return 1 if queue.is_single_use else self._backend.capacity or self._seen_capacity or _UNKNOWN_CAPACITY

    def _begin(self, opening: Coroutine[Any, Any, Exception | None]) -> Opening:
        task = asyncio.create_task(opening)
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)
        return task

    async def _open_for_line(self, queue: BoxQueue, plan: BoxPlan) -> Exception | None:
        async with self._turns.turn(queue.key.tenant):
            queue.queued -= 1
            is_needed = queue.begun * self._capacity(queue) < len(queue.line)
            return await self._open(queue, plan) if is_needed else None

    async def _open_ahead(self, queue: BoxQueue, pause: float) -> Exception | None:
        error = None
        try:
            await asyncio.sleep(pause)
            async with self._turns_ahead.turn(queue.key.tenant), self._turns.turn(queue.key.tenant):
                if queue.lacks_ready:
                    error = await self._open(queue, queue.plan)
        finally:
            queue.ahead.discard(_this_task())
        if error is not None:
            queue.wanted = 0
        return error

    async def _open(self, queue: BoxQueue, plan: BoxPlan) -> Exception | None:
        """Open a box and keep it. On failure, refuse as many callers in line as the box would have served, unless
        another box would be opened by now."""
        try:
            pooled = await self._open_timed(queue, plan)
        except ImageGone as error:
            return self._give_up(queue, error, refuses=not queue.has_newer_image(plan))
        except Exception as error:
            return self._give_up(queue, error)
        queue.preloads = pooled.preloaded
        self._seen_capacity = pooled.box.capacity
        if pooled.session.loss is not None:
            self.retire(pooled, queue)
            return self._give_up(queue, CallNotStarted(pooled.session.loss.message, remedy=CALL_AGAIN))
        self.keep(pooled, queue)
        self.open_missing(queue, queue.plan)
        return None

    async def _open_timed(self, queue: BoxQueue, plan: BoxPlan) -> PooledBox:
        queue.begun += 1
        begun = asyncio.get_running_loop().time()
        try:
            pooled = await self._open_with_room(queue, plan)
        finally:
            queue.begun -= 1
        queue.opening_s = asyncio.get_running_loop().time() - begun
        return pooled

    async def _open_with_room(self, queue: BoxQueue, plan: BoxPlan) -> PooledBox:
        """Open a box, and close idle ones if there are too many or the host has no room."""
        excess = len(self._opener.open_boxes) + 1 - self._max_boxes
        if excess > 0:
            self._retire_idle(excess)
        try:
            return await self._opener.open(plan, preloads=queue.preloads)
        except (SandboxError, OSError) as error:
            if remedy_of_shortage(str(error)) is None or not self._retire_idle():
                raise
        await self._opener.these_closed()
        return await self._opener.open(plan, preloads=queue.preloads)

    def _retire_idle(self, count: int | None = None) -> bool:
        """Retire the boxes that were idle longest, and return whether there were any."""
        idle = self._longest_idle()
        retired = idle[: len(idle) // _SHARE_CLOSED + 1 if count is None else count]
        for pooled, queue in retired:
            self.retire(pooled, queue)
        return bool(retired)

    def _give_up(self, queue: BoxQueue, error: Exception, *, refuses: bool = True) -> Exception:
        if refuses:
            queue.refuse(error, count=self._capacity(queue))
        self.open_missing(queue, queue.plan)
        return error


def _this_task() -> Opening:
    task = asyncio.current_task()
    assert task is not None
    return task
