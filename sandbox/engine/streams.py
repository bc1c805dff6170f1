"""Following a call: who reads what it prints and gives as it comes, and at what pace each of its streams is taken."""

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
    """The `grant` of a call that does not wait for its reader, who is to keep no more than it likes."""


class OnOutput(Protocol):
    """A reader of output as it comes; it calls `grant` for what it has taken, unless that is `unpaced`."""

    def __call__(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class StreamListener:
    """Who follows a call: what is told of its output, and of what the tool gives before it is done."""

    on_output: OnOutput
    on_item: TakeItem | None = None
    """Gets the JSON of each item, which the tool may have forged, and calls what comes with it once it has taken it;
    there are only so many, and so many bytes of them."""


class RateLimiter:
    """How long to wait before taking more, so that a stream stays at its rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._due = 0.0

    def delay(self, size: int, *, now: float) -> float:
        """Seconds to wait after `size` more bytes; a short burst is free."""
        self._due = max(self._due, now) + size / self._rate
        return max(self._due - now - _BURST_S, 0.0)


class StreamCapture:
    """What one stream needs once something is printed there; most calls print nothing."""

    __slots__ = ("capture", "pace", "spill")

    def __init__(self, room: OutputBudget, policy: Policy, keeping: ArtifactWriter | None) -> None:
        self.spill = None if keeping is None else StreamSpool(keeping)
        feed = None if self.spill is None else self.spill.feed
        self.capture = Capture(shown=room.budget, limit=policy.limits.output, output_type=room.type, spill=feed)
        self.pace = RateLimiter(policy.limits.output_rate)
