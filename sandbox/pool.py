"""The pool: warm boxes, lent for calls and taken back, kept for one (environment, policy, tenant) each.

A box serves as many calls at once as it has room for; every call is walled from the others inside it (see the runner),
so a box is not lent exclusively. It leaves the pool when its policy forbids reuse, when a call in it did not end
cleanly, when it has been idle too long, when too much memory is kept warm, or when it died. A box that leaves takes no
new calls, ends when its last call has, and is closed exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from sandbox.backends.base import Backend, Box, BoxPlan
from sandbox.backends.remedies import missing_walls, refuse_weaker
from sandbox.errors import BoxLost, EngineClosed
from sandbox.outcome import Receipt
from sandbox.policy import Policy, ReuseMode
from sandbox.wire.conversation import Conversation, WallFault
from sandbox.wire.messages import Hello
from sandbox.wire.running_call import RunningCall

_SPARE_SLOTS: Final = 2
_WALLS: Final = ("user_namespace", "mount_namespace", "pid_namespace", "network_namespace")
_SWEEP_S: Final = 1.0
_OPENING_S: Final = 60.0
_LEAST_FOR_OPENING_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class BoxKey:
    """What a box is for; calls with equal keys may share one."""

    environment: str
    policy: str
    tenant: str
    is_plain: bool = False


@dataclass(slots=True, eq=False)
class WarmBox:
    """One open box with its conversation, and what the pool must remember of it."""

    box: Box
    conversation: Conversation
    policy: Policy
    hello: Hello
    preloaded: bool
    lent: int = 0
    slots: int = 0
    idle_since: float = 0.0
    is_retired: bool = False
    is_closing: bool = False
    imported: set[str] = field(default_factory=set)
    receipts: dict[tuple[bytes, str, str], Receipt] = field(default_factory=dict)
    """Nearly every call of a box is walled the same, and told the same: receipts made so far."""

    @property
    def has_room(self) -> bool:
        """Whether another call may come."""
        return not self.is_retired and self.conversation.loss is None and self.lent < self.box.capacity

    def ensure_slots(self) -> None:
        """As many slots as calls are under way, and some for the children forked ahead; those only once the box's first
        call, which would wait for them, is on its way."""
        more = self.policy.reuse.ahead + _SPARE_SLOTS if self.slots else 0
        missing = min(self.lent, self.box.capacity) + more - self.slots
        if missing > 0:
            self._add_slots(missing)

    def give_back(self, call: RunningCall) -> None:
        """The call's slot has been read."""
        if not self.conversation.give_back(call) and self.conversation.loss is None:
            self.slots -= 1
            self._add_slots(1)

    def preload(self, modules: Sequence[str]) -> None:
        """Have what tools import imported ahead, each module told once."""
        new = [name for name in modules if name not in self.imported] if self.preloaded else []
        if new:
            self.imported.update(new)
            self.conversation.preload(new)

    def _add_slots(self, count: int) -> None:
        """A box that dies takes its slots along, perhaps before the end of its channel is heard here."""
        try:
            slots = self.box.add_slots(count)
            if slots:
                self.slots += len(slots)
                self.conversation.lend_slots(slots)
        except OSError as error:
            self.conversation.abandon(f"the box has no place for calls any more: {error}")


@dataclass(slots=True)
class Loan:
    """A box for one call, and how it was come by. It is over when its `call`, if there is one, has ended."""

    warm: WarmBox
    path: Literal["cold", "warm"]
    call: RunningCall | None = None


class Pool:
    """All boxes of one engine; used from one event loop."""

    def __init__(self, backend: Backend, *, most_memory: int) -> None:
        self._backend = backend
        self._most_memory = most_memory
        self._boxes: dict[BoxKey, list[WarmBox]] = {}
        self._open_boxes: set[WarmBox] = set()
        self._opening: dict[BoxKey, asyncio.Task[WarmBox]] = {}
        self._closing: set[asyncio.Task[str]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def boxes(self) -> tuple[WarmBox, ...]:
        """Every box that could be lent."""
        return tuple(warm for boxes in self._boxes.values() for warm in boxes)

    @asynccontextmanager
    async def lend(self, key: BoxKey, plan: BoxPlan) -> AsyncIterator[Loan]:
        """A box with room for one call, warm if there is one; `retire` it if the call does not end cleanly."""
        loan = await self._find(key, plan)
        warm = loan.warm
        try:
            if warm.conversation.loss is None:
                warm.ensure_slots()
            yield loan
        finally:
            if loan.call is None:
                self._take_back(warm)
            else:
                loan.call.ended.add_done_callback(lambda _: self._take_back(warm))

    @asynccontextmanager
    async def alone(self, plan: BoxPlan) -> AsyncIterator[Loan]:
        """A box for one call, shared with nobody; it is gone, and not just going, when this ends."""
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")
        warm = await self._open(plan)
        warm.is_retired = True
        warm.lent += 1
        try:
            warm.ensure_slots()
            yield Loan(warm, "cold")
        finally:
            warm.is_closing = True
            self._open_boxes.discard(warm)
            await asyncio.shield(self._closed(warm.box, warm.conversation))

    def _take_back(self, warm: WarmBox) -> None:
        warm.lent -= 1
        warm.idle_since = asyncio.get_running_loop().time()
        if warm.is_retired or warm.conversation.loss is not None:
            self.retire(warm)
        else:
            warm.ensure_slots()
            warm.conversation.supply_lines()

    def retire(self, warm: WarmBox) -> None:
        """Lend it no more; it is closed as soon as nobody uses it."""
        warm.is_retired = True
        for key, boxes in list(self._boxes.items()):
            if warm in boxes:
                boxes.remove(warm)
                if not boxes:
                    del self._boxes[key]
        if warm.lent <= 0:
            self._close_soon(warm)

    async def close(self) -> None:
        """Close every box, busy or not."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for warm in list(self._open_boxes):
            warm.lent = 0
            self.retire(warm)
        while self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    async def _find(self, key: BoxKey, plan: BoxPlan) -> Loan:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")
        if plan.policy.reuse.mode is ReuseMode.NEVER:
            warm = await self._open(plan)
            warm.is_retired = True
            warm.lent += 1
            return Loan(warm, "cold")
        for warm in self._boxes.get(key, ()):
            if warm.has_room:
                warm.lent += 1
                return Loan(warm, "warm")
        warm = await self._open_once(key, plan)
        if warm.conversation.loss is not None:
            raise warm.conversation.loss
        if not warm.has_room:
            return await self._find(key, plan)
        warm.lent += 1
        return Loan(warm, "cold")

    async def _open_once(self, key: BoxKey, plan: BoxPlan) -> WarmBox:
        """Open a box for the key; callers that come meanwhile wait for the same one."""
        task = self._opening.get(key)
        if task is None:
            task = asyncio.create_task(self._open_and_keep(key, plan))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise EngineClosed("the engine was closed while a box was opening") from None
            raise

    async def _open_and_keep(self, key: BoxKey, plan: BoxPlan) -> WarmBox:
        warm = await self._open(plan)
        warm.idle_since = asyncio.get_running_loop().time()
        self._boxes.setdefault(key, []).append(warm)
        warm.conversation.on_loss = lambda: self.retire(warm)
        if warm.conversation.loss is not None:
            self.retire(warm)
        self._start_sweeping()
        return warm

    async def _open(self, plan: BoxPlan) -> WarmBox:
        """A box with what it can have preloaded. Forking needs a process with one thread: when preloading left more,
        the box is opened again with nothing preloaded, and every call imports for itself."""
        warm = await self._open_with(plan)
        if warm.hello.threads <= 1 or not plan.preload:
            return warm
        self._open_boxes.discard(warm)
        await asyncio.shield(self._closed(warm.box, warm.conversation))
        return await self._open_with(replace(plan, preload=()), preloaded=False)

    async def _open_with(self, plan: BoxPlan, *, preloaded: bool = True) -> WarmBox:
        box = await self._backend.open(plan)
        conversation = Conversation(box)
        reuse = plan.policy.reuse
        ahead = 0 if reuse.mode is ReuseMode.NEVER else reuse.ahead
        try:
            refuse_weaker(box.protection, policy=plan.policy)
            async with asyncio.timeout(_patience(plan.policy)):
                hello = await conversation.open(
                    box.walls, preload=plan.preload, environment=plan.environment, ahead=ahead
                )
            if not plan.is_plain:
                _refuse_without_walls(hello, policy=plan.policy)
        except BaseException as error:
            last_words = await asyncio.shield(self._closed(box, conversation))
            raise _explained(error, policy=plan.policy, last_words=last_words) from None
        warm = WarmBox(box, conversation, plan.policy, hello, preloaded, imported=set(plan.preload))
        self._open_boxes.add(warm)
        return warm

    def _close_soon(self, warm: WarmBox) -> None:
        if not warm.is_closing:
            warm.is_closing = True
            self._open_boxes.discard(warm)
            self._closed(warm.box, warm.conversation)

    def _closed(self, box: Box, conversation: Conversation) -> asyncio.Task[str]:
        """Being closed, whether or not anybody waits for it; `close` does."""
        task = asyncio.create_task(_close(box, conversation))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _start_sweeping(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Retire what has been idle too long, and the longest idle while too much memory is kept warm."""
        while self._boxes:
            await asyncio.sleep(_SWEEP_S)
            now = asyncio.get_running_loop().time()
            idle = sorted((warm for warm in self.boxes if warm.lent == 0), key=lambda warm: warm.idle_since)
            for warm in idle:
                if now - warm.idle_since > warm.policy.reuse.idle or self._keeps_too_much():
                    self.retire(warm)

    def _keeps_too_much(self) -> bool:
        return sum(warm.box.memory_bytes() for warm in self.boxes) > self._most_memory


async def _close(box: Box, conversation: Conversation) -> str:
    last_words = await box.close()
    conversation.close()
    return last_words


def _refuse_without_walls(hello: Hello, *, policy: Policy) -> None:
    """A box that was to be walled and is not must not pass for one, whatever its policy requires."""
    missing: list[str] = [layer for layer in _WALLS if layer in hello.refused]
    if missing:
        raise missing_walls(missing, policy=policy, reason=hello.refused[missing[0]])


def _patience(policy: Policy) -> float:
    """How long a box may take to open: what its environment runs at the start runs on the call's account."""
    return min(max(policy.limits.wall, _LEAST_FOR_OPENING_S), _OPENING_S)


def _explained(error: BaseException, *, policy: Policy, last_words: str) -> BaseException:
    """Why a box did not open, in the engine's words."""
    if isinstance(error, WallFault):
        return missing_walls([error.layer], policy=policy, reason=error.reason)
    if isinstance(error, TimeoutError):
        return BoxLost(
            f"a box did not open within {_patience(policy):.0f} s; its runner said: {last_words[-500:] or 'nothing'}"
        )
    if isinstance(error, BoxLost) and last_words:
        return BoxLost(f"{error.message}; its runner said: {last_words[-500:]}")
    return error
