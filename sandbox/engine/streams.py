"""The streams of a call: who listens to them as they come, and how fast each of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import OutputBudget
from sandbox.outputs.capture import Capture
from sandbox.policy import Policy
from sandbox.protocol.frames import Stream
from sandbox.protocol.running_call import TakeItem

_BURST_S: Final = 0.25


def unpaced(_: int) -> None:
    """Grant nothing: the call does not wait for its listener, which must bound what it keeps."""


class TakeOutput(Protocol):
    """A listener of output. The listener calls `grant` with the bytes it has taken, unless `grant` is `unpaced`."""

    def __call__(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class StreamListener:
    """The functions that get a call's output, and the items of a generator, while the call runs."""

    on_output: TakeOutput
    on_item: TakeItem | None = None
    """Gets the JSON of each item, which the tool may have forged, and a function to call once the item is taken. The
    number and the bytes of items are bounded."""


class RateLimiter:
    """Keeps the reading of a stream at a rate in bytes per second."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._due = 0.0

    def delay(self, size: int, *, now: float) -> float:
        """Return the seconds to wait after `size` more bytes. A short burst is free."""
        self._due = max(self._due, now) + size / self._rate
        return max(self._due - now - _BURST_S, 0.0)


class StreamCapture:
    """A stream of a call, from its first bytes on. Most calls print nothing and have none."""

    __slots__ = ("capture", "limiter", "room", "spool")

    def __init__(self, room: OutputBudget, policy: Policy, writer: ArtifactWriter | None) -> None:
        self.room = room
        self.spool = None if writer is None else StreamSpool(writer)
        feed = None if self.spool is None else self.spool.feed
        self.capture = Capture(shown=room.budget, limit=policy.limits.output, output_type=room.type, spill=feed)
        self.limiter = RateLimiter(policy.limits.output_rate)
