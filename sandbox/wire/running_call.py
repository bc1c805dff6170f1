"""One call under way, as the conversation knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sandbox.ports import Line, Slot
from sandbox.wire.frames import Stream
from sandbox.wire.messages import Ended, Returned, Started

_HEAD: Final = 4


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call under way. `take` gets its output as it comes and returns how many bytes may follow for it."""

    id: int
    take: Callable[[Stream, bytes], int]
    value_limit: int
    ended: asyncio.Future[Ended]
    told: asyncio.Future[None]
    """Done when the reply is whole, or the call has ended without one."""
    value: bytearray = field(default_factory=bytearray)
    walls: bytearray = field(default_factory=bytearray)
    started: Started | None = None
    returned: Returned | None = None
    slot: Slot | None = None
    line: Line | None = None
    cpu_before: float = 0.0
    owed: int = 0
    untaken: int = 0
    was_killed: bool = False
    was_lost: bool = False
    value_overflowed: bool = False

    @property
    def has_told(self) -> bool:
        """Whether all that it says of itself is there; an end without a word is that too."""
        return self.returned is not None or self.ended.done()

    @property
    def has_whole_reply(self) -> bool:
        """Whether as much came as the reply's head says."""
        size = int.from_bytes(self.value[:_HEAD], "big")
        return len(self.value) >= _HEAD + size
