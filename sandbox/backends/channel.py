"""The engine's end of a box's channel: a unix stream socket on the event loop, which can carry descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from sandbox.protocols import Receiver

_READ_SIZE: Final = 1 << 18


class SocketChannel:
    """Pass incoming bytes to a receiver, and queue outgoing bytes.

    After the other side has gone, the channel still reads to the end: a runner's last message says why it ended.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[bytes, Sequence[int]]] = deque()
        self._receiver: Receiver | None = None
        self._room = memoryview(bytearray(_READ_SIZE))
        self._is_open = True
        self._is_heard = True
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def is_closed(self) -> bool:
        """Return whether either side has closed the channel."""
        return not (self._is_open and self._is_heard)

    def listen(self, receiver: Receiver) -> None:
        """Start passing on incoming bytes."""
        self._receiver = receiver
        self._loop.add_reader(self._socket, self._read)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send as much as the socket takes, and queue the rest."""
        if self.is_closed:
            _close_all(descriptors)
            return
        if self._queue:
            self._queue.append((data, descriptors))
            return
        rest = self._try(data, descriptors)
        if rest is not None:
            self._queue.append(rest)
            self._is_idle.clear()
            self._loop.add_writer(self._socket, self._write)

    async def all_sent(self) -> None:
        """Wait until the queue is empty, or the other side is gone."""
        await self._is_idle.wait()

    def close(self) -> None:
        """Close the channel, even if a fork of this program still has a copy of our end."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._socket)
        self._send_no_more()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send_no_more(self) -> None:
        self._is_heard = False
        self._loop.remove_writer(self._socket)
        for _, descriptors in self._queue:
            _close_all(descriptors)
        self._queue.clear()
        self._is_idle.set()

    def _try(self, data: bytes, descriptors: Sequence[int]) -> tuple[bytes, Sequence[int]] | None:
        """Send the descriptors with the first byte, close them, and return the unsent rest; None if all is sent."""
        try:
            sent = socket.send_fds(self._socket, [data], list(descriptors)) if descriptors else self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return data, descriptors
        except (BrokenPipeError, ConnectionResetError):
            _close_all(descriptors)
            self._send_no_more()
            return None
        except OSError:
            _close_all(descriptors)
            self._hang_up()
            return None
        _close_all(descriptors)
        return (data[sent:], ()) if sent < len(data) else None

    def _write(self) -> None:
        while self._queue:
            rest = self._try(*self._queue.popleft())
            if self.is_closed:
                return
            if rest is not None:
                self._queue.appendleft(rest)
                return
        self._loop.remove_writer(self._socket)
        self._is_idle.set()

    def _read(self) -> None:
        try:
            data = bytes(self._room[: self._socket.recv_into(self._room)])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data and self._receiver:
            self._receiver.received(data)
        elif not data:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close()
        if self._receiver:
            self._receiver.closed()


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
