"""What a conversation needs of a box, so that it need not know backends."""

from __future__ import annotations

from collections.abc import Sequence
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
        """Hand everything that comes to `receiver`, from now on."""

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data`; does not wait, and drops it when the box is gone. Closes the descriptors once they are sent."""


class Slot(Protocol):
    """A place for one call at a time, measured and limited from outside of the box."""

    id: int

    def open_doors(self) -> Sequence[int]:
        """Descriptors that a child writes "0" into to enter; whoever gets them closes them."""

    def renew(self) -> bool:
        """Make ready for the next call; False when it cannot be used again."""

    def close(self) -> None:
        """Let go of it."""
