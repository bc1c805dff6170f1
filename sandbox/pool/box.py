"""One open box with the session in it, and the lease of it to a call."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeAlias

from sandbox.backends.base import Box
from sandbox.outcome import Receipt
from sandbox.policy import Policy, ReuseMode
from sandbox.protocol.messages import Hello
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.session import RunnerSession
from sandbox.protocols import Slot

_SPARE_SLOTS: Final = 2
_LONGEST_COMPILED: Final = 1 << 17
"""A tool that is longer keeps the box's runner busy for too long to be compiled once for all its calls."""
_QUICK_S: Final = 0.25
"""Of a call that takes longer compiling is a small part; or it is what takes so long, as some sources are made to."""
_MOST_SOURCES: Final = 64
_DYING_S: Final = 1.0
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)

LeasePath: TypeAlias = Literal["cold", "pooled", "warm"]


@dataclass(slots=True, eq=False)
class PooledBox:
    """One open box with its session, and what the pool must remember of it."""

    box: Box
    session: RunnerSession
    policy: Policy
    hello: Hello
    preloaded: bool
    lent: int = 0
    slots: int = 0
    idle_since: float = 0.0
    memory: int = 0
    """The memory it held when that was last looked at."""
    is_retired: bool = False
    is_import_reported: bool = False
    """Whether the outcome of a call has said what importing packages ahead used."""
    is_closing: bool = False
    imported: set[str] = field(default_factory=set)
    sources: dict[tuple[str, str], bool] = field(default_factory=dict)
    """The tools that ran here last, by file and text, and whether the runner was told to compile them."""
    receipts: dict[tuple[bytes, str, str], Receipt] = field(default_factory=dict)
    """Nearly every call of a box is walled the same, and told the same: receipts made so far."""
    spare_slots: int = field(init=False)
    """How many more than it has calls."""
    opened_at: float = field(init=False)

    def __post_init__(self) -> None:
        reuse = self.policy.reuse
        self.spare_slots = 0 if reuse.mode is ReuseMode.NEVER else reuse.ahead + _SPARE_SLOTS
        self.opened_at = asyncio.get_running_loop().time()

    @property
    def has_room(self) -> bool:
        """Whether another call may come."""
        is_free = not self.is_retired and self.session.loss is None and self.lent < self.box.capacity
        return is_free and not self.is_past_its_time

    @property
    def is_past_its_time(self) -> bool:
        """Whether it has been open for as long as calls may come."""
        good_for_s = self.box.good_for_s
        return good_for_s is not None and asyncio.get_running_loop().time() >= self.opened_at + good_for_s

    def ensure_slots(self) -> None:
        """As many slots as calls are under way, and some for the children forked ahead; those only once the box's first
        call, which would wait for them, is on its way."""
        more = self.spare_slots if self.slots else 0
        missing = min(self.lent, self.box.capacity) + more - self.slots
        if missing > 0:
            self._add_slots(missing)

    def await_only_call(self) -> None:
        """Have the slot of a single call there before the call is, and a line if it can have one, for its process to
        be forked ahead."""
        if not self.slots:
            self._add_slots(1)
        self.session.offer_pipes()

    def release_slot(self, call: RunningCall) -> None:
        """The call's slot has been read."""
        if not self.session.release_slot(call) and self.session.loss is None:
            self.slots -= 1
            self._add_slots(1)

    def preload(self, modules: Sequence[str]) -> None:
        """Have what tools import imported ahead, each module told once."""
        new = [name for name in modules if name not in self.imported] if self.preloaded else []
        if new and not self.is_retired:
            self.imported.update(new)
            self.session.preload(new)

    def note_run(self, source: str, *, filename: str, took_s: float) -> None:
        """A call of that tool ended well. One that comes again is worth compiling; many are written to run once."""
        if took_s > _QUICK_S or len(source) > _LONGEST_COMPILED or self.is_retired:
            return
        is_told = self.sources.get((filename, source))
        if is_told is None and len(self.sources) >= _MOST_SOURCES:
            del self.sources[next(iter(self.sources))]
        elif is_told is False:
            self.session.compile(source, filename=filename)
        self.sources[filename, source] = is_told is not None

    def _add_slots(self, count: int) -> None:
        """A box that dies takes its slots along, perhaps before the end of its channel is heard here, and what its
        runner said last. Where descriptors run out it gets fewer, and calls take turns in what it has."""
        slots: Sequence[Slot] = ()
        try:
            slots = self.box.add_slots(count)
            if slots:
                self.session.offer_slots(slots)
                self.slots += len(slots)
        except OSError as error:
            for slot in slots:
                slot.close()
            if error.errno in _SHORTAGES and count > 1:
                self._add_slots(count // 2)
            elif error.errno not in _SHORTAGES or not self.slots:
                reason = f"the box has no place for calls any more: {error}"
                self.is_retired = True
                self.session.timers.after(_DYING_S, partial(self.session.abandon, reason))


@dataclass(slots=True)
class Lease:
    """A box for one call, and how it was come by. It is over when its `call`, if there is one, has ended."""

    pooled: PooledBox
    path: LeasePath
    call: RunningCall | None = None
