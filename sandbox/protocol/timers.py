"""The agenda of one box: all that is to be done later for its calls, on a single timer of the event loop.

Every call has a time when it must be over, and nearly all are over long before. A timer of its own would cost such a
call as much as sending it; an appointment costs a place in a heap, and the loop's timer is set anew only for one that
is earlier than all others. What was called off stays where it is until its time has come, or until there is more of
that than of all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

_FEW: Final = 64
_AS_GOOD_AS_DUE_S: Final = 1e-6
"""A loop's own clock may be a little behind the time that a timer was set for."""


class Timer:
    """Something to be done at its time, unless it is called off before."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Without harm when it is over."""
        self.action = None

    @property
    def is_pending(self) -> bool:
        """Whether it is still to come."""
        return self.action is not None


class TimerQueue:
    """Made on, and used from, one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._heap: list[tuple[float, int, Timer]] = []
        self._most = _FEW
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = inf

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Do that then, after what was to be done at the same time before."""
        due, appointment = self._loop.time() + seconds, Timer(action)
        heappush(self._heap, (due, next(self._numbers), appointment))
        if due < self._set_for:
            self._set_timer(due)
        if len(self._heap) > self._most:
            self._tidy()
        return appointment

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._set_for = self._loop.call_at(due, self._keep), due

    def _keep(self) -> None:
        """Do what is due; what goes wrong with one of them is told by the loop, and keeps no other from being done."""
        now = self._loop.time() + _AS_GOOD_AS_DUE_S
        while self._heap and (self._heap[0][0] <= now or not self._heap[0][2].is_pending):
            _, _, appointment = heappop(self._heap)
            if appointment.action is not None:
                self._loop.call_soon(_do, appointment)
        self._timer, self._set_for = None, inf
        if self._heap:
            self._set_timer(self._heap[0][0])

    def _tidy(self) -> None:
        self._heap = [each for each in self._heap if each[2].is_pending]
        heapify(self._heap)
        self._most = max(_FEW, 2 * len(self._heap))


def _do(appointment: Timer) -> None:
    """One that was due together with it may have called it off."""
    action, appointment.action = appointment.action, None
    if action is not None:
        action()
