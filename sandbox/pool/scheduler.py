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
from sandbox.pool.box import WarmBox
from sandbox.pool.limiter import Admission
from sandbox.pool.opener import CALL_AGAIN, BoxOpener
from sandbox.pool.queue import Shelf

_LULL_S: Final = 0.02
"""A call that took a box is not disturbed at once by the opening of the next."""
_MANY: Final = 1 << 20
_PART_GIVEN_UP: Final = 4

Opening: TypeAlias = asyncio.Task[Exception | None]
"""Ends with the reason why there is no box, if there is none."""


class Supply:
    """Opens boxes for shelves."""

    def __init__(
        self,
        backend: Backend,
        opener: BoxOpener,
        *,
        has_memory: Callable[[Shelf], bool],
        longest_idle: Callable[[], Sequence[tuple[WarmBox, Shelf]]],
        most_opening: int,
        most_boxes: int,
    ) -> None:
        self._backend = backend
        self._opener = opener
        self._has_memory = has_memory
        self._longest_idle = longest_idle
        self._most_boxes = most_boxes
        self._turns = Admission(most_opening)
        self._turns_ahead = Admission(max(1, most_opening // 2))
        self._openings: set[Opening] = set()
        self._seen_capacity: int | None = None
        self._is_stopped = False

    def open_missing(self, shelf: Shelf, plan: BoxPlan, *, counts_ending: bool = True) -> None:
        """Begin as many openings as it takes for all in line who get no room of calls that are just ending."""
        in_line = len(shelf.line) - (shelf.ending if counts_ending else 0)
        while not self._is_stopped and (shelf.queued + shelf.begun) * self._seats(shelf) < in_line:
            shelf.queued += 1
            self._begin(self._open_for_line(shelf, plan))

    def fill(self, shelf: Shelf, *, lull: float = _LULL_S) -> None:
        """Begin as many openings as single-use boxes are wanted, if there is memory for them."""
        while not self._is_stopped and len(shelf.ready) + len(shelf.ahead) < shelf.wanted and self._has_memory(shelf):
            shelf.ahead.add(self._begin(self._open_ahead(shelf, lull)))

    async def filled(self, shelf: Shelf) -> None:
        """Do it, and wait; raises why the first that failed did. They go on when the caller does not."""
        self.fill(shelf, lull=0.0)
        done, _ = await asyncio.wait(set(shelf.ahead)) if shelf.ahead else (set(), None)
        for opening in done:
            if opening.cancelled():
                raise EngineClosed("the engine was closed while a box was opening")
            error = opening.result()
            if error is not None:
                raise error

    def keep(self, warm: WarmBox, shelf: Shelf) -> None:
        """A box that nobody has used is for who is in line, for calls to come, or for nobody."""
        warm.idle_since = asyncio.get_running_loop().time()
        warm.conversation.on_loss = lambda: self.retire(warm, shelf)
        warm.conversation.on_unfit = lambda: self._preload_no_more(warm, shelf)
        shelf.hand_out(warm, "cold")
        if shelf.is_single_use and warm.lent:
            return
        if warm.conversation.loss is not None or (shelf.is_single_use and not shelf.lacks_ready):
            self.retire(warm, shelf)
        elif shelf.is_single_use:
            warm.await_only_call()
            shelf.ready.append(warm)
        else:
            shelf.boxes.append(warm)

    def retire(self, warm: WarmBox, shelf: Shelf) -> None:
        """Lend it no more; it is closed as soon as nobody uses it."""
        warm.is_retired = True
        shelf.drop(warm)
        if warm.lent <= 0:
            self._opener.close_soon(warm)

    def _preload_no_more(self, warm: WarmBox, shelf: Shelf) -> None:
        """What a later tool imports has left in the box what no call can share, as it would in those to come."""
        shelf.preloads = False
        self.retire(warm, shelf)

    async def stop(self) -> None:
        """End every opening."""
        self._is_stopped = True
        for opening in list(self._openings):
            opening.cancel()
        await asyncio.gather(*self._openings, return_exceptions=True)

    def _seats(self, shelf: Shelf) -> int:
        """How many callers one box is enough for; until that is known, all of them."""
        return 1 if shelf.is_single_use else self._backend.capacity or self._seen_capacity or _MANY

    def _begin(self, opening: Coroutine[Any, Any, Exception | None]) -> Opening:
        task = asyncio.create_task(opening)
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)
        return task

    async def _open_for_line(self, shelf: Shelf, plan: BoxPlan) -> Exception | None:
        async with self._turns.turn(shelf.key.tenant):
            shelf.queued -= 1
            is_needed = shelf.begun * self._seats(shelf) < len(shelf.line)
            return await self._open(shelf, plan) if is_needed else None

    async def _open_ahead(self, shelf: Shelf, lull: float) -> Exception | None:
        error = None
        try:
            await asyncio.sleep(lull)
            async with self._turns_ahead.turn(shelf.key.tenant), self._turns.turn(shelf.key.tenant):
                if shelf.lacks_ready:
                    error = await self._open(shelf, shelf.plan)
        finally:
            shelf.ahead.discard(_this_task())
        if error is not None:
            shelf.wanted = 0
        return error

    async def _open(self, shelf: Shelf, plan: BoxPlan) -> Exception | None:
        """Open a box and let it be had; why it cannot be is told to as many in line as it would have served, unless
        another would be opened by now."""
        try:
            warm = await self._opened(shelf, plan)
        except ImageGone as error:
            return self._give_up(shelf, error, refuses=not shelf.has_newer_image(plan))
        except Exception as error:
            return self._give_up(shelf, error)
        shelf.preloads = warm.preloaded
        self._seen_capacity = warm.box.capacity
        if warm.conversation.loss is not None:
            self.retire(warm, shelf)
            return self._give_up(shelf, CallNotStarted(warm.conversation.loss.message, remedy=CALL_AGAIN))
        self.keep(warm, shelf)
        self.open_missing(shelf, shelf.plan)
        return None

    async def _opened(self, shelf: Shelf, plan: BoxPlan) -> WarmBox:
        shelf.begun += 1
        begun = asyncio.get_running_loop().time()
        try:
            warm = await self._opened_in_room(shelf, plan)
        finally:
            shelf.begun -= 1
        shelf.opening_s = asyncio.get_running_loop().time() - begun
        return warm

    async def _opened_in_room(self, shelf: Shelf, plan: BoxPlan) -> WarmBox:
        excess = len(self._opener.open_boxes) + 1 - self._most_boxes
        if excess > 0:
            self._give_up_idle(excess)
        try:
            return await self._opener.open(plan, preloads=shelf.preloads)
        except (SandboxError, OSError) as error:
            if remedy_of_shortage(str(error)) is None or not self._give_up_idle():
                raise
        await self._opener.these_closed()
        return await self._opener.open(plan, preloads=shelf.preloads)

    def _give_up_idle(self, most: int | None = None) -> bool:
        """Retire so many of the boxes that are idle longest, otherwise some; whether there were any."""
        idle = self._longest_idle()
        going = idle[: len(idle) // _PART_GIVEN_UP + 1 if most is None else most]
        for warm, shelf in going:
            self.retire(warm, shelf)
        return bool(going)

    def _give_up(self, shelf: Shelf, error: Exception, *, refuses: bool = True) -> Exception:
        if refuses:
            shelf.refuse(error, most=self._seats(shelf))
        self.open_missing(shelf, shelf.plan)
        return error


def _this_task() -> Opening:
    task = asyncio.current_task()
    assert task is not None
    return task
