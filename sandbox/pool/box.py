"""A pooled box with its session, and the lease of it for a call."""

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
# A longer source would keep the box's runner busy for too long.
_MAX_COMPILED: Final = 1 << 17
# For a longer call, compiling is a small part, or it is what takes so long, as for sources made to be slow.
_MAX_QUICK_S: Final = 0.25
_MAX_SOURCES: Final = 64
_DYING_S: Final = 1.0
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)

LeasePath: TypeAlias = Literal["cold", "pooled", "warm"]


@dataclass(slots=True, eq=False)
class PooledBox:
    """An open box with its session, and what the pool remembers of it."""

    box: Box
    session: RunnerSession
    policy: Policy
    hello: Hello
    preloaded: bool
    leases: int = 0
    slots: int = 0
    idle_since: float = 0.0
    memory: int = 0
    """The memory that the box held at the last measurement."""
    is_retired: bool = False
    is_import_reported: bool = False
    """Whether an outcome has reported what importing packages ahead cost."""
    is_closing: bool = False
    imported: set[str] = field(default_factory=set)
    sources: dict[tuple[str, str], bool] = field(default_factory=dict)
    """The last tools that ran here, by file and text, and whether the runner was asked to compile them."""
    receipts: dict[tuple[bytes, str, str], Receipt] = field(default_factory=dict)
    """The receipts so far. Nearly every call of a box has the same isolation, and the same record of it."""
    spare_slots: int = field(init=False)
    """How many slots there are beyond the calls."""
    opened_at: float = field(init=False)

    def __post_init__(self) -> None:
        reuse = self.policy.reuse
        self.spare_slots = 0 if reuse.mode is ReuseMode.NEVER else reuse.ahead + _SPARE_SLOTS
        self.opened_at = asyncio.get_running_loop().time()

    @property
    def has_room(self) -> bool:
        """Whether another call may come."""
        is_free = not self.is_retired and self.session.loss is None and self.leases < self.box.capacity
        return is_free and not self.is_expired

    @property
    def is_expired(self) -> bool:
        """Whether the box has been open for as long as its backend lets it serve."""
        good_for_s = self.box.good_for_s
        return good_for_s is not None and asyncio.get_running_loop().time() >= self.opened_at + good_for_s

    def describe_loss(self) -> str:
        """Return why the box, or its child for a call, is gone, with the last words of its runner."""
        reason, words = self.session.loss or "the process that waited for the call died", self.box.last_words()
        return f"{reason}; its runner said: {words[-500:]}" if words else str(reason)

    def ensure_slots(self) -> None:
        """Add slots for all calls under way, and some for prefork children."""
        # The spare slots come once the box's first call, which would wait for them, is on its way.
        spare = self.spare_slots if self.slots else 0
        missing = min(self.leases, self.box.capacity) + spare - self.slots
        if missing > 0:
            self._add_slots(missing)

    def expect_only_call(self) -> None:
        """Offer the slot of a single call, and pipes if possible, before the call comes, so that its process can be
        forked ahead."""
        if not self.slots:
            self._add_slots(1)
        self.session.offer_pipes()

    def release_slot(self, call: RunningCall) -> None:
        """Renew the slot of a call after its counters were read."""
        if not self.session.release_slot(call) and self.session.loss is None:
            self.slots -= 1
            self._add_slots(1)

    def preload(self, modules: Sequence[str]) -> None:
        """Have the runner import modules ahead of calls, each of them once."""
        new = [name for name in modules if name not in self.imported] if self.preloaded else []
        if new and not self.is_retired:
            self.imported.update(new)
            self.session.preload(new)

    def note_run(self, source: str, *, filename: str, took_s: float) -> None:
        """Note a call that ended well. A tool that comes again is worth compiling; many are written to run once."""
        if took_s > _MAX_QUICK_S or len(source) > _MAX_COMPILED or self.is_retired:
            return
        is_compiled = self.sources.get((filename, source))
        if is_compiled is None and len(self.sources) >= _MAX_SOURCES:
            del self.sources[next(iter(self.sources))]
        elif is_compiled is False:
            self.session.compile(source, filename=filename)
        self.sources[filename, source] = is_compiled is not None

    def _add_slots(self, count: int) -> None:
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
                # With fewer slots, calls take turns.
                self._add_slots(count // 2)
            elif error.errno not in _SHORTAGES or not self.slots:
                # A box that dies takes its slots along. Its channel may still hold what its runner said last, so the
                # session gets a moment to read that.
                reason = f"the box has no place for calls any more: {error}"
                self.is_retired = True
                self.session.timers.after(_DYING_S, partial(self.session.abandon, reason))


@dataclass(slots=True)
class Lease:
    """A box for one call, and how the call got it. If there is a `call`, the lease is over when that has ended."""

    pooled: PooledBox
    path: LeasePath
    call: RunningCall | None = None
