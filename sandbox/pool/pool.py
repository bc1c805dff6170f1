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
from sandbox.backends.hints import told_to
from sandbox.errors import EngineClosed, SandboxError
from sandbox.pool.box import Loan, LoanPath, WarmBox
from sandbox.pool.opener import BoxOpener
from sandbox.pool.queue import BoxKey, Shelf
from sandbox.pool.scheduler import Supply
from sandbox.protocol.running_call import RunningCall

__all__ = ["BoxKey", "Loan", "Pool", "PoolStatistics", "WarmBox"]

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


class Lending:
    """One loan, for the time of an `async with`; as a generator it would cost every call twice as much."""

    __slots__ = ("_key", "_loan", "_plan", "_pool", "_shelf")

    def __init__(self, pool: Pool, key: BoxKey, plan: BoxPlan) -> None:
        self._pool, self._key, self._plan = pool, key, plan
        self._loan: Loan
        self._shelf: Shelf

    async def __aenter__(self) -> Loan:
        self._loan, self._shelf = await self._pool.lend_now(self._key, self._plan)
        return self._loan

    async def __aexit__(self, *_: object) -> None:
        self._pool.take_back(self._loan, self._shelf)


class Pool:
    """All boxes of one engine; used from one event loop."""

    def __init__(
        self, backend: Backend, *, most_memory: int, most_opening: int | None = None, most_boxes: int | None = None
    ) -> None:
        self._opener = BoxOpener(backend)
        self._most_boxes = most_boxes or _affordable_boxes()
        self._supply = Supply(
            backend,
            self._opener,
            has_memory=self._has_memory,
            longest_idle=self._longest_idle,
            most_opening=most_opening or max(2, 2 * (os.cpu_count() or 1)),
            most_boxes=self._most_boxes,
        )
        self._most_memory = most_memory
        self._shelves: dict[BoxKey, Shelf] = {}
        self._calls: dict[LoanPath, int] = {"cold": 0, "pooled": 0, "warm": 0}
        self._sweeper: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def boxes(self) -> tuple[WarmBox, ...]:
        """Every box that could be lent."""
        return tuple(warm for shelf in self._shelves.values() for warm in (*shelf.boxes, *shelf.ready))

    @property
    def statistics(self) -> PoolStatistics:
        """What there is now, and what has been."""
        shelves = self._shelves.values()
        return PoolStatistics(
            warm=sum(warm.lent == 0 for shelf in shelves for warm in shelf.boxes),
            ready=sum(len(shelf.ready) for shelf in shelves),
            opening=sum(shelf.begun for shelf in shelves),
            lent=sum(warm.lent > 0 for warm in self._opener.open_boxes),
            cold_calls=self._calls["cold"],
            pooled_calls=self._calls["pooled"],
            warm_calls=self._calls["warm"],
        )

    def lend(self, key: BoxKey, plan: BoxPlan) -> Lending:
        """A box with room for one call, open already if there is one; retire it if the call does not end cleanly."""
        return Lending(self, key, plan)

    async def lend_now(self, key: BoxKey, plan: BoxPlan) -> tuple[Loan, Shelf]:
        """The same, for whoever takes it back."""
        shelf = self._shelves.get(key) or self._new_shelf(key, plan)
        loan = shelf.take() or await self._wait_in_line(shelf, plan)
        self._calls[loan.path] += 1
        try:
            if shelf.is_single_use:
                self._note_demand(shelf, plan)
                self._supply.fill(shelf)
            if loan.warm.conversation.loss is None:
                loan.warm.ensure_slots()
        except BaseException:
            self.take_back(loan, shelf)
            raise
        return loan, shelf

    def take_back(self, loan: Loan, shelf: Shelf) -> None:
        """The loan is over as far as its caller goes."""
        if loan.call is None:
            self._take_back(loan.warm, shelf)
        else:
            self._take_back_when_ended(loan.call, loan.warm, shelf)

    @asynccontextmanager
    async def alone(self, plan: BoxPlan) -> AsyncIterator[Loan]:
        """A box for one call, shared with nobody; it is gone, and not just going, when this ends."""
        self._refuse_when_closed()
        warm = await self._opener.open(plan)
        warm.is_retired = True
        warm.lent += 1
        try:
            self._refuse_when_closed()
            warm.ensure_slots()
            yield Loan(warm, "cold")
        finally:
            await self._opener.close(warm)

    async def prepare(self, key: BoxKey, plan: BoxPlan) -> None:
        """Have room for calls like this before the first comes: a warm box, or as many single-use boxes as the policy
        keeps ready. Raises what a call would find out: that such a box cannot be."""
        shelf = self._shelves.get(key) or self._new_shelf(key, plan)
        if shelf.most_ahead:
            self._note_demand(shelf, plan)
            shelf.wanted = shelf.most_ahead
            try:
                await self._supply.filled(shelf)
            except SandboxError as error:
                raise told_to(plan.policy, error) from None
        if not shelf.ready:
            loan = shelf.take() or await self._wait_in_line(shelf, plan)
            loan.warm.preload(plan.preload)
            self._take_back(loan.warm, shelf)

    async def close(self) -> None:
        """Close every box, busy or not."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for shelf in self._shelves.values():
            shelf.refuse(EngineClosed("the engine was closed while a box was opening"), most=len(shelf.line))
        self._shelves.clear()
        await self._supply.stop()
        for warm in list(self._opener.open_boxes):
            warm.lent = 0
            warm.is_retired = True
            self._opener.close_soon(warm)
        await self._opener.all_closed()

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    def _new_shelf(self, key: BoxKey, plan: BoxPlan) -> Shelf:
        self._refuse_when_closed()
        shelf = self._shelves[key] = Shelf(key, plan, used_at=_now())
        self._start_sweeping()
        return shelf

    async def _wait_in_line(self, shelf: Shelf, plan: BoxPlan) -> Loan:
        """The next room that there is. The first call of a key does not tell whether boxes are worth opening ahead;
        it is looked at again when it is over."""
        shelf.learn(plan)
        if shelf.has_lent:
            shelf.want_more()
            self._supply.fill(shelf)
        place = shelf.enter_line()
        self._supply.open_missing(shelf, plan)
        if shelf.ending:  # one that does not end soon, for what another box takes to open, is not waited for
            open_anyway = partial(self._supply.open_missing, shelf, plan, counts_ending=False)
            soon = max(_SOON_S, min(shelf.opening_s / 2, _NOT_SOON_S))
            asyncio.get_running_loop().call_later(soon, open_anyway)
        try:
            return await place
        except asyncio.CancelledError:
            unused = shelf.leave_line(place)
            if unused is not None:
                self._take_unused(unused.warm, shelf)
            raise
        except SandboxError as error:
            raise told_to(plan.policy, error) from None

    def _note_demand(self, shelf: Shelf, plan: BoxPlan) -> None:
        shelf.has_lent = True
        shelf.used_at = _now()
        shelf.learn(plan)

    def _take_back_when_ended(self, call: RunningCall, warm: WarmBox, shelf: Shelf) -> None:
        """A caller may have its outcome a moment before the call's last process is gone."""
        is_coming_back = not warm.is_retired

        def ended(_: object) -> None:
            shelf.ending -= is_coming_back
            self._take_back(warm, shelf)

        shelf.ending += is_coming_back
        call.ended.add_done_callback(ended)

    def _take_back(self, warm: WarmBox, shelf: Shelf) -> None:
        warm.lent -= 1
        warm.idle_since = asyncio.get_running_loop().time()
        if warm.is_retired or warm.conversation.loss is not None or warm.is_past_its_time:
            self._supply.retire(warm, shelf)
            self._note_end(shelf)
            self._supply.open_missing(shelf, shelf.plan)
        else:
            warm.ensure_slots()
            warm.conversation.supply_lines()
            if shelf.line:
                shelf.hand_out(warm, "warm")

    def _note_end(self, shelf: Shelf) -> None:
        """A single-use box has had its call: others will need theirs."""
        if shelf.most_ahead and not self._is_closed and self._shelves.setdefault(shelf.key, shelf) is shelf:
            shelf.used_at = _now()
            if not shelf.wanted:
                shelf.want_more()
            self._supply.fill(shelf)
            self._start_sweeping()

    def _take_unused(self, warm: WarmBox, shelf: Shelf) -> None:
        """The caller it was handed to had gone."""
        if shelf.is_single_use and not warm.is_closing:
            warm.lent = 0
            warm.is_retired = False
            self._supply.keep(warm, shelf)
        else:
            self._take_back(warm, shelf)

    def _has_memory(self, shelf: Shelf) -> bool:
        """Whether one more of its boxes may be kept ready. What others keep for nobody does not count: the longest idle
        go when there is too much."""
        in_use = sum(warm.memory for warm in self.boxes if warm.lent)
        of_its_own = shelf.memory * (len(shelf.ready) + len(shelf.ahead) + 1)
        return in_use + of_its_own <= self._most_memory

    def _longest_idle(self) -> list[tuple[WarmBox, Shelf]]:
        """The boxes that nobody uses, the longest idle first."""
        idle = [(warm, shelf) for shelf in self._shelves.values() for warm in shelf.idle]
        return sorted(idle, key=lambda each: each[0].idle_since)

    def _kept_memory(self) -> int:
        return sum(warm.memory for warm in self.boxes)

    def _start_sweeping(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Retire what has been idle too long, and the longest idle while too much is kept warm."""
        while self._shelves:
            await asyncio.sleep(_SWEEP_S)
            self._weigh()
            for warm, shelf in self._longest_idle():
                is_old = warm.is_past_its_time or _now() - warm.idle_since > warm.policy.reuse.idle
                is_too_much = self._kept_memory() > self._most_memory
                if is_old or is_too_much or len(self._opener.open_boxes) > self._most_boxes:
                    self._supply.retire(warm, shelf)
            self._forget_unused()

    def _weigh(self) -> None:
        for shelf in self._shelves.values():
            for warm in (*shelf.boxes, *shelf.ready):
                warm.memory = shelf.memory = warm.box.memory_bytes()

    def _forget_unused(self) -> None:
        """A key that nobody uses leaves nothing."""
        for key, shelf in list(self._shelves.items()):
            if shelf.is_bare and _now() - shelf.used_at > shelf.plan.policy.reuse.idle:
                del self._shelves[key]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _affordable_boxes() -> int:
    """As many as take half of the files that this process may open: the others are the host program's."""
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ANY_NUMBER if most_files == resource.RLIM_INFINITY else max(1, most_files // 2 // _DESCRIPTORS)
