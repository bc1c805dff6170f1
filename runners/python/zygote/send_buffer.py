"""The way out to the engine: what is said in one turn of the loop goes out at its end, in one piece.

A call's output is read into sheltered memory and sent from there. Sending blocks: the engine always
reads, and while it does not, nothing else here may grow.
"""

from __future__ import annotations

import os

from box import frames, wipe_on_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from box.channel import Channel

    Part = Union[bytes, memoryview]

READ_SIZE = 1 << 16
_REGION = 1 << 19
_MOST_PARTS = 512


class Outlet:
    """Gathers, then sends."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._region = wipe_on_fork.region(_REGION)
        self._used = 0
        self._parts: list[Part] = []
        self.is_urgent = False

    @property
    def holds(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._parts)

    def say(self, message: bytes, *, urgent: bool = True) -> None:
        """A whole frame. What nobody waits for goes out with what comes next, or when there is time."""
        self._parts.append(message)
        self.is_urgent = self.is_urgent or urgent

    def read(self, descriptor: int) -> memoryview | None:
        """What can be read there now, empty at its end, None when there is nothing; good until the next `flush`."""
        if self._used + READ_SIZE > _REGION or len(self._parts) > _MOST_PARTS:
            self.flush()
        room = self._region[self._used : self._used + READ_SIZE]
        try:
            count = os.readv(descriptor, [room])
        except BlockingIOError:
            return None
        self._used += count
        return room[:count]

    def carry(self, call: int, stream: int, data: memoryview) -> None:
        """Some bytes of a call, as they were read."""
        self._parts += [frames.chunk_head(call, stream, len(data)), data]
        self.is_urgent = True

    def flush(self) -> None:
        """Send everything; OSError when nobody is there any more."""
        parts, self._parts, self._used, self.is_urgent = self._parts, [], 0, False
        if parts:
            self._channel.send(parts)
