"""What the parts of a call ask of each other across a box, so that none of them needs to know the other.

A backend's box is a `Carrier`; the conversation that runs over it is its `Receiver`; a `Slot` is lent by the box, lent
on by the conversation, and read by whoever watches the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Receiver(Protocol):
    """Who the bytes of a box are handed to; called on the event loop."""

    def received(self, data: bytes) -> None:
        """Some bytes came."""

    def closed(self) -> None:
        """No more bytes will come."""


class Carrier(Protocol):
    """The part of a box that carries bytes."""

    def listen(self, receiver: Receiver) -> None:
        """Hand everything that comes to `receiver`, from now on; called once."""

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data`; does not wait, and drops it when the box is gone. Closes the descriptors once they are sent."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a slot says about one call; None is "not measured", never a guess."""

    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    processes_peak: int | None = None
    out_of_memory_kills: int = 0
    refused_forks: int = 0


class Slot(Protocol):
    """A place for one call at a time, measured and limited from outside of the box."""

    @property
    def id(self) -> int:
        """Its number in its box."""

    def open_doors(self) -> Sequence[int]:
        """Descriptors that a child writes "0" into to enter; whoever gets them closes them."""

    def read(self) -> Reading:
        """What has been used since the last `renew`."""

    def renew(self) -> bool:
        """Make ready for the next call; False when the slot cannot be used again and must be replaced."""

    def close(self) -> None:
        """Let go of it."""
