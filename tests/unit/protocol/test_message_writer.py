"""Messages to a box keep their order, and are dropped once the box is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from sandbox.protocol.frames import pack_message
from sandbox.protocol.message_writer import MessageWriter
from sandbox.protocol.timers import TimerQueue
from sandbox.protocols import DirectPipes, Receiver


class Listener:
    """A channel that records its messages."""

    def __init__(self) -> None:
        self.heard = b""

    def listen(self, receiver: Receiver) -> None:
        """Keep no receiver, because no message comes back."""

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self.heard += data
        for descriptor in descriptors:
            os.close(descriptor)

    async def all_sent(self) -> None:
        """Return at once, because every message is accepted at once."""

    def open_pipes(self) -> DirectPipes | None:
        return None


def test_delayed_messages_go_before_later_urgent_ones() -> None:
    async def spoken() -> bytes:
        listener, done = Listener(), asyncio.Event()
        voice = MessageWriter(listener, TimerQueue())
        voice.send_soon({"type": "call", "id": 1}, then=done.set)
        voice.send({"type": "kill", "id": 1})
        await done.wait()
        return listener.heard

    assert asyncio.run(spoken()) == pack_message({"type": "call", "id": 1}) + pack_message({"type": "kill", "id": 1})


@pytest.mark.parametrize("is_silent", [False, True])
def test_descriptors_given_away_are_closed_with_and_without_a_receiver(is_silent: bool) -> None:
    async def heard(ends: Sequence[int]) -> bytes:
        listener = Listener()
        voice = MessageWriter(listener, TimerQueue())
        if is_silent:
            voice.close()
        voice.send({"type": "slots", "slots": [[0, 2]]}, descriptors=ends)
        return listener.heard

    ends = os.pipe()
    assert bool(asyncio.run(heard(ends))) is not is_silent
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)
