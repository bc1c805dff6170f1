"""The result of a call: all that its supervisor saw, frozen.

Verdict, receipt and outcome are functions of the plan, this result, and the facts of the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.engine.replies import Answer
from sandbox.engine.streams import StreamCapture
from sandbox.outcome import Usage
from sandbox.outputs.artifacts.receiver import ReceivedFiles
from sandbox.policy import Limits
from sandbox.protocol.messages import Ended
from sandbox.protocols import Reading


class KillReason(StrEnum):
    """Why the engine killed a call."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OUTPUT = "output"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended: what its box reported, and what was measured from outside."""

    ended: Ended
    value: bytes
    limits: Limits
    reading: Reading
    wall_s: float
    kill_reason: KillReason | None = None
    was_lost: bool = False
    value_overflowed: bool = False
    answer: Answer | None = None
    """The parsed reply, if it was parsed already."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """All that was seen of one call."""

    end: CallEnd
    usage: Usage
    layers: bytes
    """The guard's record of the isolation layers around the call."""
    stdout: StreamCapture | None
    """None if nothing was printed there."""
    stderr: StreamCapture | None
    files: ReceivedFiles
    is_started: bool
    """Whether a child had the call."""
    was_ahead: bool
    """Whether that child was forked before the call came."""
    environment_fault: str
    """Why packages could not be imported ahead for the call."""
    ended_at: float
    """When the call ended, by `time.perf_counter`."""

    @property
    def has_outputs(self) -> bool:
        """Whether the call printed anything, or left files."""
        return self.stdout is not None or self.stderr is not None or bool(self.files.artifacts or self.files.refused)
