"""The proxy of one call: it answers on the listening socket that the call's guard made, and ends with the call.

A call that has used up its connections is told so a few times. Then nobody listens any more, and whoever goes on asking
keeps only the kernel busy.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from sandbox.egress.connection import Connection
from sandbox.egress.destinations import Destinations
from sandbox.egress.http_head import MOST_HEAD_BYTES
from sandbox.egress.traffic import Ledger

_KERNEL_BUFFER: Final = 256 << 10
_NO_DESCRIPTORS_S: Final = 0.1
_MOST_TOLD: Final = 100


class Proxy:
    """Serves until it is closed; made on, and used from, one event loop."""

    def __init__(self, listener: socket.socket, *, ledger: Ledger, destinations: Destinations) -> None:
        self.ledger = ledger
        self._listener = listener
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._is_closed = False
        listener.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # what is accepted has it from here
            listener.setsockopt(socket.SOL_SOCKET, option, _KERNEL_BUFFER)
        self._listen()

    def close(self) -> None:
        """Hang up on everyone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._fall_silent()
        for task in self._open:
            task.cancel()

    async def closed(self) -> None:
        """Wait until the last connection is gone."""
        await asyncio.gather(*self._open, return_exceptions=True)

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _fall_silent(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no descriptors are left, for now
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_NO_DESCRIPTORS_S, self._listen)
            return
        self._accepted += 1
        if self._accepted > self.ledger.limits.connections_in_all + _MOST_TOLD:
            near.close()
            self._fall_silent()
            return
        task = self._loop.create_task(self._serve(near))
        self._open.add(task)
        task.add_done_callback(self._forget)
        if len(self._open) >= self.ledger.limits.connections:
            self._loop.remove_reader(self._listener)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """There is room for one that waits. What went wrong with a connection is its own affair."""
        self._open.discard(task)
        if not task.cancelled():
            task.exception()
        self._listen()

    async def _serve(self, near: socket.socket) -> None:
        near.setblocking(False)
        try:
            reader, writer = await asyncio.open_connection(sock=near, limit=MOST_HEAD_BYTES)
        except BaseException:
            near.close()
            raise
        await Connection(reader, writer, ledger=self.ledger, destinations=self._destinations).serve()
