"""One call under way, as the session knows it."""

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
"""In the first byte of a head, which has the most significant part."""
MOST_ITEMS: Final = 10_000

Result = TypeVar("Result")
TakeItem = Callable[[bytes, Callable[[], None]], None]


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call under way. `take` gets its output as it comes and returns how many bytes may follow for it."""

    id: int
    take: Callable[[Stream, bytes], int]
    take_item: TakeItem | None
    """Gets each item that the tool gives before its reply, as JSON that nobody has looked at yet, with what to call
    when it has been taken."""
    take_files: Callable[[bytes], int]
    """Gets what the call's guard sends of the files it left, and returns how much more of that may come at once."""
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
    """What the child had used by then, once that is known."""
    environment_fault: str = ""
    """What its environment's packages did, where they could not be imported ahead for it."""
    has_returned: bool = False
    """Whether its reply is whole."""
    slot: Slot | None = None
    line: DirectPipes | None = None
    item_bytes: int = 0
    items: int = 0
    owed: int = 0
    untaken: int = 0
    files_untaken: int = 0
    items_untaken: int = 0
    has_printed: bool = False
    is_held: bool = False
    """Whether no more is read of its items and its reply for now."""
    was_killed: bool = False
    was_lost: bool = False
    value_overflowed: bool = False
    _begun: asyncio.Event | None = None
    """Of a call that somebody waits for, to feed it."""

    @property
    def has_replied(self) -> bool:
        """Whether all that it says of itself is there; an end without a word is that too."""
        return self.has_returned or self.ended.done()

    def begin(self, *, was_ahead: bool) -> None:
        """A child has it."""
        self.is_started, self.was_ahead = True, was_ahead
        if self._begun is not None:
            self._begun.set()

    async def until_begun(self) -> None:
        """Wait until a child has it, or none ever will."""
        if not (self.is_started or self.ended.done()):
            self._begun = self._begun or asyncio.Event()
            await self._begun.wait()

    def note_reply(self) -> None:
        """Its reply is whole."""
        self.has_returned = True
        _finish(self.replied, None)

    def end(self, ended: Ended) -> None:
        """It is over; nobody waits for anything of it any more."""
        if self._begun is not None:
            self._begun.set()
        _finish(self.ended, ended)
        _finish(self.replied, None)

    @property
    def has_too_much(self) -> bool:
        """Whether it said more than it may: in its reply, in its items, or in too many of them."""
        return len(self.value) > self.value_limit or (self.items > 0 and self._has_too_many_items)

    def cut_what_is_too_much(self) -> bool:
        """Keep no more of its value than it may have; whether it has to be ended for that now."""
        del self.value[self.value_limit :]
        was_known, self.value_overflowed = self.value_overflowed, True
        return not was_known

    @property
    def begins_with_item(self) -> bool:
        """Whether what came, of which nothing was taken yet, is an item or part of one, and no reply."""
        return bool(self.value) and self.value[0] >= _MARKED

    def split_items(self) -> Iterator[bytes]:
        """Take the whole items from the front of what came; what is left begins with the reply, or part of an item."""
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
        return self.items > MOST_ITEMS or self.item_bytes > self.value_limit

    @property
    def has_whole_reply(self) -> bool:
        """Whether as much came as the reply's head says."""
        size = int.from_bytes(self.value[:_HEAD], "big")
        return len(self.value) >= _HEAD + size


def _finish(future: asyncio.Future[Result], result: Result) -> None:
    """Set it, unless whoever waited has given up."""
    if not future.done():
        future.set_result(result)
