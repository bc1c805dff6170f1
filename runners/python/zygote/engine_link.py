"""The zygote's link to the engine: messages and bytes of calls, in both directions, on one channel.

Incoming bytes become messages, parts of requests, and descriptors. Outgoing frames gather during one turn of the poll
loop and leave together at its end. Sending blocks: the engine always reads, and while the engine does not read, nothing
here may grow.

A fork copies everything that the parent has in memory, and a tool can read all of its own memory. The bytes of one call
must therefore not be in memory when a child for another call is forked. The kernel can leave a mapping empty in every
child (`MADV_WIPEONFORK`, Linux 4.14). Bytes of calls are received into such mappings and sent on from there, and never
become Python objects, which would leave copies all over the heap.
"""

from __future__ import annotations

import mmap
import os

from box import channel as channels
from box import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn, Union

    from box.channel import Channel
    from zygote.child import Child

    Part = Union[bytes, memoryview]

READ_SIZE = 1 << 16
_REGION_BYTES = 1 << 19
_MAX_PARTS = 512
_MAX_REASON = 2000
_MADV_WIPEONFORK = 18


class EngineLink:
    """A channel, as the zygote uses it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._region = wiped_region(_REGION_BYTES)
        self._used = 0
        self._parts: list[Part] = []
        self.is_urgent = False

    def listen(
        self,
        handlers: Mapping[str, Callable[[dict[str, Any]], None]],
        *,
        on_request: Callable[[int, memoryview], None],
        on_hangup: Callable[[], NoReturn],
    ) -> None:
        """Set what gets messages, by their type, and parts of a call's request."""
        self._handlers = handlers
        self._on_request = on_request
        self._on_hangup = on_hangup
        self._reader = frames.FrameReader(wiped_region(frames.BUFFER))
        self._descriptors = channels.ReceivedDescriptors()

    def receive(self) -> None:
        """Handle everything that has arrived."""
        try:
            count, descriptors = self._channel.receive(self._reader.room())
        except ConnectionResetError:  # the engine closed the channel before it had read everything
            self._on_hangup()
        if not count:
            self._on_hangup()
        self._descriptors.add(descriptors)
        for kind, content in self._reader.feed(count):
            if kind == frames.CHUNK:
                self._on_request(content[0], content[2])
            else:
                self._handlers[content["type"]](content)

    def take_descriptors(self, counts: Sequence[int]) -> list[list[int]]:
        """Return the descriptors of the message that is being handled, which announced these counts."""
        return self._descriptors.take(counts)

    # Sending

    @property
    def has_unsent(self) -> bool:
        """Whether frames wait for the next `flush`."""
        return bool(self._parts)

    def say(self, kind: str, *, urgent: bool = True, **fields: Any) -> None:
        """Queue a message. A message that is not urgent leaves with the next urgent one, or when there is time."""
        self._queue(frames.message(kind, **fields), urgent=urgent)

    def say_frame(self, frame: bytes) -> None:
        """Queue a whole frame."""
        self._queue(frame, urgent=True)

    def read(self, descriptor: int) -> memoryview | None:
        """Return what can be read now, which is empty at the end, or None when there is nothing.

        The view is valid until the next `flush`.
        """
        if self._used + READ_SIZE > _REGION_BYTES or len(self._parts) > _MAX_PARTS:
            self.flush()
        room = self._region[self._used : self._used + READ_SIZE]
        try:
            count = os.readv(descriptor, [room])
        except BlockingIOError:
            return None
        self._used += count
        return room[:count]

    def carry(self, call: int, stream: int, data: memoryview) -> None:
        """Queue some bytes of a call, as `read` returned them."""
        self._parts += [frames.chunk_head(call, stream, len(data)), data]
        self.is_urgent = True

    def flush(self) -> None:
        """Send everything; raise OSError when the engine is gone."""
        parts, self._parts, self._used, self.is_urgent = self._parts, [], 0, False
        if parts:
            self._channel.send(parts)

    def _queue(self, frame: bytes, *, urgent: bool) -> None:
        self._parts.append(frame)
        self.is_urgent = self.is_urgent or urgent

    # Reports about calls and children

    def report_started(self, child: Child) -> None:
        """Report that a child has a call, and its isolation if that is known."""
        self.say("started", id=child.call, slot=child.slot, ahead=child.ahead, urgent=not child.ahead)
        self.report_isolation(child)

    def report_isolation(self, child: Child) -> None:
        """Report the isolation of a call, as its guard verified it."""
        if child.call is not None and child.isolation is not None:
            self._queue(frames.chunk(child.call, frames.ISOLATION, child.isolation), urgent=False)

    def report_ready(self, child: Child) -> None:
        """Report that the engine can call a child on direct pipes."""
        isolation = (child.isolation or b"").decode("ascii", "replace")
        self.say("ready", line=child.line, slot=child.slot, cpu_before=child.spent, walls=isolation)

    def report_surplus(self, child: Child, *, wanted: int) -> None:
        """Report that a child on direct pipes is not needed any more, and how many are."""
        self.say("surplus", line=child.line, wanted=wanted)

    def report_end(self, id: int, fields: dict[str, Any], *, killed_by: str | None, seen: float | None = None) -> None:
        """Report the end of a call."""
        self.say("ended", id=id, killed_by=killed_by, seen=seen, **fields)

    def report_gone(self, line: int, fields: dict[str, Any]) -> None:
        """Report the death of a child on direct pipes, before the zygote heard of a call for it."""
        self.say("gone", line=line, killed_by=None, **fields)

    def report_unfit(self, reason: str) -> None:
        """Report that calls import for themselves from now on."""
        self.say("unfit", reason=reason[:_MAX_REASON])


def wiped_region(size: int) -> memoryview:
    """Return a writable mapping that is empty in every fork."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        mapping.madvise(_MADV_WIPEONFORK)
    except (AttributeError, OSError):  # not Linux, or a kernel before 4.14
        pass
    return memoryview(mapping)


def copy_to_wiped(data: memoryview) -> memoryview:
    """Return a copy that outlasts the next `flush`, in memory that is empty in every fork."""
    copy = wiped_region(max(len(data), 1))[: len(data)]
    copy[:] = data
    return copy
