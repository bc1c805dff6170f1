"""The writer of a session: messages to a runner, sent at once or a moment later with the next.

A runner need not know at once of a call that its child already has. Waking the runner during a short call takes
processor time from the call, and most calls end before. The runner kills calls and forks children only on a message,
and every later message comes after the delayed one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sandbox.protocol.frames import pack_message
from sandbox.protocol.timers import TimerQueue
from sandbox.protocols import Carrier

_DELAY_S: Final = 0.004


class MessageWriter:
    """Sends the messages of one session in their order, until the box is gone."""

    def __init__(self, carrier: Carrier, timers: TimerQueue) -> None:
        self._carrier = carrier
        self._timers = timers
        self._delayed: list[Mapping[str, object]] = []
        self._is_closed = False

    def send(self, message: Mapping[str, object], *, chunks: bytes = b"", descriptors: Sequence[int] = ()) -> None:
        """Send a message with the chunks that belong to it."""
        self._send(pack_message(message) + chunks, descriptors)

    def send_chunks(self, chunks: bytes) -> None:
        """Send more chunks of an earlier message."""
        self._send(chunks, ())

    def send_soon(self, message: Mapping[str, object], *, then: Callable[[], None]) -> None:
        """Send a message with the next one, at the latest in a moment, and call `then` in a moment in any case."""
        if not self._delayed:
            self._timers.after(_DELAY_S, partial(self._catch_up, then))
        self._delayed.append(message)

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True

    def _catch_up(self, then: Callable[[], None]) -> None:
        if self._delayed:
            self._send(b"", ())
        then()

    def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        delayed, self._delayed = self._delayed, []
        if not self._is_closed:
            self._carrier.send(b"".join(map(pack_message, delayed)) + data, descriptors)
            return
        for descriptor in descriptors:  # the caller gave them away, so nothing else closes them
            os.close(descriptor)
