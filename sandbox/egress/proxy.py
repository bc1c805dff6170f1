"""The proxy of one call: it answers on the listening socket that the call's guard made, and ends with the call.

A call that has used up its connections gets a refusal a few times. After that the proxy stops listening, and further
attempts only keep the kernel busy.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from sandbox.egress.connection import Connection
from sandbox.egress.destinations import Destinations
from sandbox.egress.http_head import MAX_HEAD_BYTES
from sandbox.egress.traffic import CallTraffic

_KERNEL_BUFFER: Final = 256 << 10
_NO_DESCRIPTORS_S: Final = 0.1
_MAX_REFUSALS: Final = 100


class Proxy:
    """Serve until closed, on a single event loop."""

    def __init__(self, listener: socket.socket, *, traffic: CallTraffic, destinations: Destinations) -> None:
        self.traffic = traffic
        self._listener = listener
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._is_closed = False
        listener.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # accepted connections inherit the option
            listener.setsockopt(socket.SOL_SOCKET, option, _KERNEL_BUFFER)
        self._listen()

    def close(self) -> None:
        """Close all connections."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_listening()
        for task in self._open:
            task.cancel()

    async def closed(self) -> None:
        """Wait until the last connection is gone."""
        await asyncio.gather(*self._open, return_exceptions=True)

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _stop_listening(self) -> None:
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
        if self._accepted > self.traffic.limits.connections_in_all + _MAX_REFUSALS:
            near.close()
            self._stop_listening()
            return
        task = self._loop.create_task(self._serve(near))
        self._open.add(task)
        task.add_done_callback(self._forget)
        if len(self._open) >= self.traffic.limits.connections:
            self._loop.remove_reader(self._listener)

    def _forget(self, task: asyncio.Task[None]) -> None:
        # Accept a waiting connection now. The failure of a connection concerns that connection only.
        self._open.discard(task)
        if not task.cancelled():
            task.exception()
        self._listen()

    async def _serve(self, near: socket.socket) -> None:
        near.setblocking(False)
        try:
            reader, writer = await asyncio.open_connection(sock=near, limit=MAX_HEAD_BYTES)
        except BaseException:
            near.close()
            raise
        await Connection(reader, writer, traffic=self.traffic, destinations=self._destinations).serve()
