"""A call under way, as its session knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import Ended
from sandbox.protocols import DirectPipes, Slot

_HEAD: Final = 4
_ITEM: Final = 1 << 31
_MARKED: Final = _ITEM >> 24
"""The mark of an item in the first, most significant byte of a head."""
MAX_ITEMS: Final = 10_000

Result = TypeVar("Result")
TakeItem = Callable[[bytes, Callable[[], None]], None]


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call under way. `take` gets its output as it comes, and returns how many bytes may follow."""

    id: int
    take: Callable[[Stream, bytes], int]
    take_item: TakeItem | None
    """Gets the unchecked JSON of each item of a generator, and a function to call when the item has been taken."""
    take_files: Callable[[bytes], int]
    """Gets the call's files as its guard sends them, and returns how many bytes may follow at once."""
    value_limit: int
    ended: asyncio.Future[Ended]
    replied: asyncio.Future[None]
    """Done when the reply is whole, or the call has ended without one."""
    value: bytearray = field(default_factory=bytearray)
    walls: bytearray = field(default_factory=bytearray)
    is_started: bool = False
    """Whether a child has the call."""
    was_ahead: bool = False
    """Whether that child was there before the call was."""
    cpu_before: float = 0.0
    """The processor time that the child had used by then, once that is known."""
    environment_fault: str = ""
    """Why its environment's packages could not be imported ahead for it."""
    has_returned: bool = False
    """Whether its reply is whole."""
    slot: Slot | None = None
    pipes: DirectPipes | None = None
    item_bytes: int = 0
    items: int = 0
    owed: int = 0
    untaken: int = 0
    files_untaken: int = 0
    items_untaken: int = 0
    has_printed: bool = False
    is_held: bool = False
    """Whether its items and its reply are not read for now."""
    was_killed: bool = False
    was_lost: bool = False
    value_overflowed: bool = False
    _begun: asyncio.Event | None = None
    """Set when a child has the call. Exists only if a feeder waits for that."""

    @property
    def has_replied(self) -> bool:
        """Whether the reply is whole, or the call ended without one."""
        return self.has_returned or self.ended.done()

    def begin(self, *, was_ahead: bool) -> None:
        """Note that a child has the call."""
        self.is_started, self.was_ahead = True, was_ahead
        if self._begun is not None:
            self._begun.set()

    async def until_begun(self) -> None:
        """Wait until a child has the call, or none ever will."""
        if not (self.is_started or self.ended.done()):
            self._begun = self._begun or asyncio.Event()
            await self._begun.wait()

    def note_reply(self) -> None:
        """Note that the reply is whole."""
        self.has_returned = True
        _finish(self.replied, None)

    def end(self, ended: Ended) -> None:
        """Note that the call is over."""
        if self._begun is not None:
            self._begun.set()
        _finish(self.ended, ended)
        _finish(self.replied, None)

    @property
    def has_excess(self) -> bool:
        """Whether the reply, the items, or their number exceed a bound."""
        return len(self.value) > self.value_limit or (self.items > 0 and self._has_too_many_items)

    def cut_excess(self) -> bool:
        """Drop what exceeds the value limit, and return whether the call must be killed for that now."""
        del self.value[self.value_limit :]
        was_known, self.value_overflowed = self.value_overflowed, True
        return not was_known

    @property
    def begins_with_item(self) -> bool:
        """Whether the value begins with an item, or part of one, and not with the reply."""
        return bool(self.value) and self.value[0] >= _MARKED

    def split_items(self) -> Iterator[bytes]:
        """Take the whole items from the front of the value. The rest begins with the reply, or part of an item."""
        while len(self.value) >= _HEAD:
            size = int.from_bytes(self.value[:_HEAD], "big")
            end = _HEAD + (size & ~_ITEM)
            if not size & _ITEM or len(self.value) < end:
                return
            item = bytes(self.value[_HEAD:end])
            del self.value[:end]
            self.items += 1
            self.item_bytes += end
            if self._has_too_many_items:
                return
            yield item

    @property
    def _has_too_many_items(self) -> bool:
        return self.items > MAX_ITEMS or self.item_bytes > self.value_limit

    @property
    def has_whole_reply(self) -> bool:
        """Whether as many bytes came as the reply's head announces."""
        size = int.from_bytes(self.value[:_HEAD], "big")
        return len(self.value) >= _HEAD + size


def _finish(future: asyncio.Future[Result], result: Result) -> None:
    # The waiter may have been cancelled.
    if not future.done():
        future.set_result(result)
