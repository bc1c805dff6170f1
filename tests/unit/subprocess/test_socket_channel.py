"""The engine's end of a channel receives the last messages even when it can no longer send."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from sandbox.backends.channel import SocketChannel

LAST_WORDS: Final = b"why it ends" * 10_000
PATIENCE_S: Final = 30


class Ears:
    """The received bytes, and whether the end was reported."""

    def __init__(self) -> None:
        self.heard = b""
        self.end = asyncio.Event()

    def received(self, data: bytes) -> None:
        self.heard += data

    def closed(self) -> None:
        assert not self.end.is_set()
        self.end.set()


def test_all_messages_of_a_closing_peer_are_received() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel, ears = SocketChannel(ours), Ears()
        channel.send(b"unread")
        theirs.sendall(LAST_WORDS)
        theirs.close()
        channel.listen(ears)
        channel.send(b"to nobody", [os.dup(0)])
        assert channel.is_closed
        await asyncio.wait_for(channel.all_sent(), PATIENCE_S)
        await asyncio.wait_for(ears.end.wait(), PATIENCE_S)
        assert ears.heard == LAST_WORDS

    asyncio.run(main())


def test_queued_bytes_for_a_closed_peer_are_dropped_with_descriptors() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel, ears = SocketChannel(ours), Ears()
        channel.send(bytes(1 << 22))
        reading, writing = os.pipe()
        channel.send(b"queued", [writing])
        theirs.sendall(LAST_WORDS)
        channel.listen(ears)
        theirs.close()
        await asyncio.wait_for(ears.end.wait(), PATIENCE_S)
        await asyncio.wait_for(channel.all_sent(), PATIENCE_S)
        assert ears.heard == LAST_WORDS
        assert os.read(reading, 1) == b""  # the only other end of the socket is closed
        os.close(reading)

    asyncio.run(main())
