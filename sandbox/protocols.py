"""What the parts of a call ask of each other across a box, so that none of them needs to know the other.

A backend's box is a `Carrier`; the session that runs over it is its `Receiver`. A `BoxImage` is what environments
become for backends that open containers. A `Slot` is lent by the box, lent
on by the session, and read by whoever watches the call. A `DirectPipes` is the box's too, and the session uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol


class Receiver(Protocol):
    """Who the bytes of a box are handed to; called on the event loop."""

    def received(self, data: bytes) -> None:
        """Some bytes came."""

    def closed(self) -> None:
        """No more bytes will come."""


OutputName = Literal["stdout", "stderr"]
OnOutput = Callable[[OutputName, bytes], None]


class DirectPipes(Protocol):
    """Four pipes that lead straight to one call's process: request, stdout, stderr and value. Used for one call."""

    @property
    def id(self) -> int:
        """Its number in its box."""

    @property
    def is_open(self) -> bool:
        """Whether it can still be called; not when nobody is there any more, or was heard before it was called."""

    def take_child_fds(self) -> Sequence[int]:
        """The process's ends in that order, to be given away; whoever gets them closes them."""

    def watch(self) -> None:
        """A process is there now: notice when it goes."""

    def call(self, request: bytes, *, on_output: OnOutput, on_reply: Callable[[bytes], None]) -> bool:
        """Send the request, and hand over what comes, on the event loop; False when nobody is there."""

    async def feed(self, data: bytes) -> None:
        """Send more of what the process reads; waits until it is sent, or the line is hung up."""

    def pause(self) -> None:
        """Leave what is printed where it is."""

    def resume(self) -> None:
        """Hand it over again."""

    def pause_reply(self) -> None:
        """Leave what is given and returned where it is."""

    def resume_reply(self) -> None:
        """Hand that over again."""

    def empty_outputs(self) -> None:
        """Hand over now what was printed; no more than a pipe holds, however fast the tool goes on."""

    def empty(self) -> None:
        """Hand over now all that the pipes still hold; the same is the bound."""

    def retract(self) -> bool:
        """Whether the process did not get its whole request, and never will: then it has not started. What was fed to
        it after that does not count."""

    def close(self) -> None:
        """Close it. A process that waits for its call ends."""


class Carrier(Protocol):
    """The part of a box that carries bytes."""

    def listen(self, receiver: Receiver) -> None:
        """Hand everything that comes to `receiver`, from now on; called once."""

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data`; does not wait, and drops it when the box is gone. Closes the descriptors once they are sent."""

    async def all_sent(self) -> None:
        """Wait until nothing is queued any more, or nobody is there to take it."""

    def open_pipes(self) -> DirectPipes | None:
        """A new line, whose far ends can be sent; None where this box, or this host now, has none."""


@dataclass(frozen=True, slots=True)
class BoxImage:
    """What containers for an environment are made from."""

    id: str
    """`sha256:…`, which no tag can be moved away from."""
    magic: bytes
    """What bytecode begins with that its Python reads; empty where that is not known."""
    holds_environment: bool = False
    """Whether what is installed is part of it, and need not be shown."""


class Reading(NamedTuple):
    """What a slot says about one call; None is "not measured", never a guess."""

    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    processes_peak: int | None = None
    out_of_memory_kills: int = 0
    refused_forks: int = 0
    processes_at_most: int | None = None
    """The call had no more at any time; an earlier call in the same group may have had so many."""


class Slot(Protocol):
    """A place for one call at a time, measured and limited from outside of the box."""

    @property
    def id(self) -> int:
        """Its number in its box."""

    def open_cgroup_fds(self) -> Sequence[int]:
        """Descriptors that a child writes "0" into to enter; whoever gets them closes them."""

    def read(self) -> Reading:
        """What has been used since the last `renew`."""

    def renew(self) -> bool:
        """Make ready for the next call; False when the slot cannot be used again and must be replaced."""

    def close(self) -> None:
        """Let go of it."""
