"""Where a pool's boxes come from: how many are opened, when, in what order, and who gets them.

As many boxes are opened as those in line need, and as many ahead as single-use calls are expected to take. How many
open at once is bounded; turns go round the tenants, half of them at most to what is opened ahead, and whoever's turn
comes looks first whether a box is still needed. A box that is open goes to who is in line, then to the shelf, and is
closed where it is not wanted: so each is in somebody's hands at any time, however callers come and go.

Boxes that idle make room for others: there are only so many, and where one cannot be opened because the host has run
out of files or processes, some of them are closed before it is tried again.
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

_LULL_S: Final = 0.02
"""A call that took a box is not disturbed at once by the opening of the next."""
_MANY: Final = 1 << 20
_PART_GIVEN_UP: Final = 4

Opening: TypeAlias = asyncio.Task[Exception | None]
"""Ends with the reason why there is no box, if there is none."""


class BoxScheduler:
    """Opens boxes for shelves."""

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
        """Begin as many openings as it takes for all in line who get no room of calls that are just ending."""
        in_line = len(queue.line) - (queue.ending if counts_ending else 0)
        while not self._is_stopped and (queue.queued + queue.begun) * self._seats(queue) < in_line:
            queue.queued += 1
            self._begin(self._open_for_line(queue, plan))

    def fill(self, queue: BoxQueue, *, lull: float = _LULL_S) -> None:
        """Begin as many openings as single-use boxes are wanted, if there is memory for them."""
        while not self._is_stopped and len(queue.ready) + len(queue.ahead) < queue.wanted and self._has_memory(queue):
            queue.ahead.add(self._begin(self._open_ahead(queue, lull)))

    async def filled(self, queue: BoxQueue) -> None:
        """Do it, and wait; raises why the first that failed did. They go on when the caller does not."""
        self.fill(queue, lull=0.0)
        done, _ = await asyncio.wait(set(queue.ahead)) if queue.ahead else (set(), None)
        for opening in done:
            if opening.cancelled():
                raise EngineClosed("the engine was closed while a box was opening")
            error = opening.result()
            if error is not None:
                raise error

    def keep(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """A box that nobody has used is for who is in line, for calls to come, or for nobody."""
        pooled.idle_since = asyncio.get_running_loop().time()
        pooled.session.on_loss = lambda: self.retire(pooled, queue)
        pooled.session.on_unfit = lambda: self._preload_no_more(pooled, queue)
        queue.hand_out(pooled, "cold")
        if queue.is_single_use and pooled.lent:
            return
        if pooled.session.loss is not None or (queue.is_single_use and not queue.lacks_ready):
            self.retire(pooled, queue)
        elif queue.is_single_use:
            pooled.await_only_call()
            queue.ready.append(pooled)
        else:
            queue.boxes.append(pooled)

    def retire(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """Lend it no more; it is closed as soon as nobody uses it."""
        pooled.is_retired = True
        queue.drop(pooled)
        if pooled.lent <= 0:
            self._opener.close_soon(pooled)

    def _preload_no_more(self, pooled: PooledBox, queue: BoxQueue) -> None:
        """What a later tool imports has left in the box what no call can share, as it would in those to come."""
        queue.preloads = False
        self.retire(pooled, queue)

    async def stop(self) -> None:
        """End every opening."""
        self._is_stopped = True
        for opening in list(self._openings):
            opening.cancel()
        await asyncio.gather(*self._openings, return_exceptions=True)

    def _seats(self, queue: BoxQueue) -> int:
        """How many callers one box is enough for; until that is known, all of them."""
        return 1 if queue.is_single_use else self._backend.capacity or self._seen_capacity or _MANY

    def _begin(self, opening: Coroutine[Any, Any, Exception | None]) -> Opening:
        task = asyncio.create_task(opening)
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)
        return task

    async def _open_for_line(self, queue: BoxQueue, plan: BoxPlan) -> Exception | None:
        async with self._turns.turn(queue.key.tenant):
            queue.queued -= 1
            is_needed = queue.begun * self._seats(queue) < len(queue.line)
            return await self._open(queue, plan) if is_needed else None

    async def _open_ahead(self, queue: BoxQueue, lull: float) -> Exception | None:
        error = None
        try:
            await asyncio.sleep(lull)
            async with self._turns_ahead.turn(queue.key.tenant), self._turns.turn(queue.key.tenant):
                if queue.lacks_ready:
                    error = await self._open(queue, queue.plan)
        finally:
            queue.ahead.discard(_this_task())
        if error is not None:
            queue.wanted = 0
        return error

    async def _open(self, queue: BoxQueue, plan: BoxPlan) -> Exception | None:
        """Open a box and let it be had; why it cannot be is told to as many in line as it would have served, unless
        another would be opened by now."""
        try:
            pooled = await self._opened(queue, plan)
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

    async def _opened(self, queue: BoxQueue, plan: BoxPlan) -> PooledBox:
        queue.begun += 1
        begun = asyncio.get_running_loop().time()
        try:
            pooled = await self._opened_in_room(queue, plan)
        finally:
            queue.begun -= 1
        queue.opening_s = asyncio.get_running_loop().time() - begun
        return pooled

    async def _opened_in_room(self, queue: BoxQueue, plan: BoxPlan) -> PooledBox:
        excess = len(self._opener.open_boxes) + 1 - self._max_boxes
        if excess > 0:
            self._give_up_idle(excess)
        try:
            return await self._opener.open(plan, preloads=queue.preloads)
        except (SandboxError, OSError) as error:
            if remedy_of_shortage(str(error)) is None or not self._give_up_idle():
                raise
        await self._opener.these_closed()
        return await self._opener.open(plan, preloads=queue.preloads)

    def _give_up_idle(self, most: int | None = None) -> bool:
        """Retire so many of the boxes that are idle longest, otherwise some; whether there were any."""
        idle = self._longest_idle()
        going = idle[: len(idle) // _PART_GIVEN_UP + 1 if most is None else most]
        for pooled, queue in going:
            self.retire(pooled, queue)
        return bool(going)

    def _give_up(self, queue: BoxQueue, error: Exception, *, refuses: bool = True) -> Exception:
        if refuses:
            queue.refuse(error, most=self._seats(queue))
        self.open_missing(queue, queue.plan)
        return error


def _this_task() -> Opening:
    task = asyncio.current_task()
    assert task is not None
    return task
