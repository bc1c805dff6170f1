"""What the engine says to a box: at once, or a moment later with whatever is said next.

A runner need not hear at once of a call that its child has already. Whoever is woken while a short call runs only takes
its processor, and most calls are over before. It kills, and makes other children, only when told, and hears of the call
before anything else that is said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sandbox.protocol.frames import pack_message
from sandbox.protocol.timers import TimerQueue
from sandbox.protocols import Carrier

_LATER_S: Final = 0.004


class MessageWriter:
    """One side of a session: all that is said, in its order, until there is nobody to hear it."""

    def __init__(self, carrier: Carrier, agenda: TimerQueue) -> None:
        self._carrier = carrier
        self._agenda = agenda
        self._unsaid: list[Mapping[str, object]] = []
        self._is_silent = False

    def say(self, message: Mapping[str, object], *, chunks: bytes = b"", descriptors: Sequence[int] = ()) -> None:
        """Send it, with the chunks that belong to it."""
        self._send(pack_message(message) + chunks, descriptors)

    def go_on(self, chunks: bytes) -> None:
        """Send more of what belongs to something said before."""
        self._send(chunks, ())

    def say_soon(self, message: Mapping[str, object], *, then: Callable[[], None]) -> None:
        """Send it with what is said next, or else in a moment; `then` is done in a moment in any case."""
        if not self._unsaid:
            self._agenda.after(_LATER_S, partial(self._catch_up, then))
        self._unsaid.append(message)

    def fall_silent(self) -> None:
        """There is nobody to hear anything more."""
        self._is_silent = True

    def _catch_up(self, then: Callable[[], None]) -> None:
        if self._unsaid:
            self._send(b"", ())
        then()

    def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        unsaid, self._unsaid = self._unsaid, []
        if not self._is_silent:
            self._carrier.send(b"".join(map(pack_message, unsaid)) + data, descriptors)
            return
        for descriptor in descriptors:  # they were given away: nobody else closes them
            os.close(descriptor)
