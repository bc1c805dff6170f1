"""The timers of one box, all on a single timer of the event loop.

Every call has a deadline, and nearly all calls end long before it. A loop timer for each would cost as much as sending
the call; a `Timer` costs an entry in a heap, and the loop's timer is set again only for one that is earlier than all
others. A cancelled timer stays in the heap until its time, or until more of the heap is cancelled than pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

_MIN_SIZE: Final = 64
# A loop's own clock may be a little behind the time for which a timer was set.
_TOLERANCE_S: Final = 1e-6


class Timer:
    """An action that runs at its time, unless it is cancelled before."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancel the action. No effect after it ran."""
        self.action = None

    @property
    def is_pending(self) -> bool:
        """Whether the action is still to run."""
        return self.action is not None


class TimerQueue:
    """Runs timers in the order of their times. Made on, and used from, one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._heap: list[tuple[float, int, Timer]] = []
        self._max_size = _MIN_SIZE
        self._handle: asyncio.TimerHandle | None = None
        self._set_for = inf

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run the action then, after earlier actions of the same time."""
        due, timer = self._loop.time() + seconds, Timer(action)
        heappush(self._heap, (due, next(self._numbers), timer))
        if due < self._set_for:
            self._set_handle(due)
        if len(self._heap) > self._max_size:
            self._drop_cancelled()
        return timer

    def _set_handle(self, due: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._set_for = self._loop.call_at(due, self._run_due), due

    def _run_due(self) -> None:
        """Schedule what is due. An error in one action is the loop's to report, and stops no other action."""
        now = self._loop.time() + _TOLERANCE_S
        while self._heap and (self._heap[0][0] <= now or not self._heap[0][2].is_pending):
            _, _, timer = heappop(self._heap)
            if timer.action is not None:
                self._loop.call_soon(_run, timer)
        self._handle, self._set_for = None, inf
        if self._heap:
            self._set_handle(self._heap[0][0])

    def _drop_cancelled(self) -> None:
        self._heap = [each for each in self._heap if each[2].is_pending]
        heapify(self._heap)
        self._max_size = max(_MIN_SIZE, 2 * len(self._heap))


def _run(timer: Timer) -> None:
    # Another action of the same time may have cancelled this one.
    action, timer.action = timer.action, None
    if action is not None:
        action()
