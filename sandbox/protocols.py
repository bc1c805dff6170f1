"""Protocols between the parts of a call, so that no part imports another.

A backend's box is a `Carrier`, and the session that runs over the box is its `Receiver`. A `BoxImage` is an environment
in the form that backends with containers open. The box lends a `Slot` to the session, the session lends it on, and the
call's supervisor reads it. The box also opens `DirectPipes` for the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol


class Receiver(Protocol):
    """The receiver of a box's bytes, called on the event loop."""

    def received(self, data: bytes) -> None:
        """Receive some bytes."""

    def closed(self) -> None:
        """Note that no more bytes will come."""


OutputName = Literal["stdout", "stderr"]
OnOutput = Callable[[OutputName, bytes], None]


class DirectPipes(Protocol):
    """Four pipes straight to the process of a call: request, stdout, stderr and value. Pipes serve one call."""

    @property
    def id(self) -> int:
        """Return the number of the pipes in their box."""

    @property
    def is_open(self) -> bool:
        """Return True while a call can start, so not after the process ended or wrote before its call."""

    def take_child_fds(self) -> Sequence[int]:
        """Return the process's ends in that order, to be sent away. The caller closes them."""

    def watch(self) -> None:
        """Watch for the end of the process, which exists now."""

    def call(self, request: bytes, *, on_output: OnOutput, on_reply: Callable[[bytes], None]) -> bool:
        """Send the request, and pass on what comes, on the event loop. Return False if the process is gone."""

    async def feed(self, data: bytes) -> None:
        """Send more of the request, and wait until it is sent or the pipes are closed."""

    def pause(self) -> None:
        """Leave printed output in the pipes."""

    def resume(self) -> None:
        """Pass printed output on again."""

    def pause_reply(self) -> None:
        """Leave the reply in its pipe."""

    def resume_reply(self) -> None:
        """Pass the reply on again."""

    def empty_outputs(self) -> None:
        """Pass on what was printed until now: at most one pipe's content, however fast the tool prints."""

    def empty(self) -> None:
        """Pass on what all pipes hold now, each up to one pipe's content."""

    def retract(self) -> bool:
        """Return True if the process did not get its whole request and never will, so that the call has not started.
        Data that was fed after the request does not count."""

    def close(self) -> None:
        """Close the pipes. A process that waits for its call ends."""


class Carrier(Protocol):
    """The part of a box that carries bytes."""

    def listen(self, receiver: Receiver) -> None:
        """Pass everything that comes to `receiver` from now on. Called once."""

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data` without waiting, or drop it if the box is gone. Close the descriptors after sending them."""

    async def all_sent(self) -> None:
        """Wait until the queue is empty or the box is gone."""

    def open_pipes(self) -> DirectPipes | None:
        """Open new pipes, whose far ends can be sent. Return None if this box, or this host now, has none."""


@dataclass(frozen=True, slots=True)
class BoxImage:
    """The image of containers for an environment."""

    id: str
    """`sha256:…`, unlike a tag, which can move to another image."""
    magic: bytes
    """The first bytes of the bytecode that the image's Python reads, or empty if unknown."""
    holds_environment: bool = False
    """True if the image contains the environment, so that no folder needs to be shown."""


class Reading(NamedTuple):
    """The figures of a slot for one call. None means not measured, and is never a guess."""

    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    processes_peak: int | None = None
    out_of_memory_kills: int = 0
    refused_forks: int = 0
    processes_at_most: int | None = None
    """An upper bound of the call's peak; an earlier call in the same group may have caused it."""


class Slot(Protocol):
    """A place for one call at a time, measured and limited from outside of the box."""

    @property
    def id(self) -> int:
        """Return the number of the slot in its box."""

    def open_cgroup_fds(self) -> Sequence[int]:
        """Open descriptors into which a child writes "0" to enter the control groups. The caller closes them."""

    def read(self) -> Reading:
        """Return the usage since the last `renew`."""

    def renew(self) -> bool:
        """Prepare for the next call. Return False if the slot must be replaced."""

    def close(self) -> None:
        """Release the slot."""
