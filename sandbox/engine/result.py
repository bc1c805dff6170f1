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
from sandbox.trusted import build_trusted


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
    """The captured stream, or None if nothing was printed there."""
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


def measured_usage(end: CallEnd, *, cpu_before: float) -> Usage:
    """Return what the call cost, measured from outside."""
    cpu = end.ended.cpu_s if end.reading.cpu_s is None else end.reading.cpu_s
    peak = end.reading.memory_peak_bytes
    return build_trusted(
        Usage,
        # To the microsecond. `round` takes several times as long.
        wall_s=int(end.wall_s * 1e6 + 0.5) / 1e6,
        cpu_s=None if cpu is None else int(max(cpu - cpu_before, 0.0) * 1e6 + 0.5) / 1e6,
        memory_peak_bytes=end.ended.max_rss if peak is None else peak,
        processes_peak=end.reading.processes_peak,
        preload_cpu_s=None,
        preload_memory_bytes=None,
    )
