"""The socket by which the runner of a container hands over listeners, in a folder that only the container mounts.

A container inherits no descriptor from us, but a unix socket carries descriptors. The runner connects before any
foreign code runs; the engine accepts the first connection only, and removes the socket. The folder of the socket lies
in a folder that only this user may enter, so that no other user of this machine can connect first.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandbox.egress import SHOWN_AT
from sandbox.egress.listener_handoff import ListenerHandoff, open_handoff
from sandbox.egress.traffic import CallTraffic
from sandbox.policy import Network

_NAME: Final = "handoff"
_FOLDER_MODE: Final = 0o711
_SOCKET_MODE: Final = 0o666


class HandoffSocket:
    """The socket of a container, on a single event loop; the container mounts `folder`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._handoff: ListenerHandoff | None = None
        self._private_folder = Path(tempfile.mkdtemp(prefix="sandbox-egress-"))
        self.folder = self._private_folder / "shown"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listen()
        except OSError:
            self._take_down()
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener, self._accept)

    @property
    def seen_at(self) -> str:
        """Return the socket's path in the container."""
        return f"{SHOWN_AT}/{_NAME}"

    def traffic(self, label: str) -> CallTraffic | None:
        """Return and forget the traffic of the call with that label; None without a listener of that call."""
        if self._handoff is None and self._listener.fileno() >= 0:
            self._accept()
        return None if self._handoff is None else self._handoff.traffic(label)

    async def close(self) -> None:
        """Close the socket and all connections, after the container has ended."""
        self._stop_listening()
        if self._handoff is not None:
            await self._handoff.close()

    def _listen(self) -> None:
        # Bind through the folder's descriptor: the address of a socket is short, and the folder's path may be long.
        self.folder.mkdir()
        self.folder.chmod(_FOLDER_MODE)
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{folder}/{_NAME}")
        finally:
            os.close(folder)
        (self.folder / _NAME).chmod(_SOCKET_MODE)
        self._listener.listen(1)
        self._listener.setblocking(False)

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            end, _ = self._listener.accept()
            self._handoff = open_handoff(end, self._network)
            self._stop_listening()

    def _stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._take_down()

    def _take_down(self) -> None:
        self._listener.close()
        shutil.rmtree(self._private_folder, ignore_errors=True)
