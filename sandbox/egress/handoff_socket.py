"""Where the runner of a container meets the engine's porter: a socket in a folder that only the container is shown.

A container inherits no descriptor from us, but a unix socket carries one wherever it is met. The runner connects before
any foreign code is there; whoever comes first is let in, nobody after, and then the place is gone. Its folder lies in
one that only we may enter, so that nobody else on this machine is first.
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
from sandbox.egress.listener_handoff import Porter, open_porter
from sandbox.egress.traffic import Ledger
from sandbox.policy import Network

_NAME: Final = "porter"
_FOR_ALL_WHO_SEE_IT: Final = 0o711
_TO_SPEAK_TO: Final = 0o666


class Meeting:
    """One container's; made on, and used from, one event loop. `folder` is what the container is to be shown."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._porter: Porter | None = None
        self._closed_to_others = Path(tempfile.mkdtemp(prefix="sandbox-egress-"))
        self.folder = self._closed_to_others / "shown"
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._open_door()
        except OSError:
            self._take_down()
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._door, self._let_in)

    @property
    def seen_at(self) -> str:
        """The socket's path in the container."""
        return f"{SHOWN_AT}/{_NAME}"

    def books(self, label: str) -> Ledger | None:
        """As a porter's."""
        if self._porter is None and self._door.fileno() >= 0:
            self._let_in()
        return None if self._porter is None else self._porter.books(label)

    async def close(self) -> None:
        """The container is gone."""
        self._shut()
        if self._porter is not None:
            await self._porter.close()

    def _open_door(self) -> None:
        """By way of the folder's descriptor: a socket's address is short, and the folder's path may not be."""
        self.folder.mkdir()
        self.folder.chmod(_FOR_ALL_WHO_SEE_IT)
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._door.bind(f"/proc/self/fd/{folder}/{_NAME}")
        finally:
            os.close(folder)
        (self.folder / _NAME).chmod(_TO_SPEAK_TO)
        self._door.listen(1)
        self._door.setblocking(False)

    def _let_in(self) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            end, _ = self._door.accept()
            self._porter = open_porter(end, self._network)
            self._shut()

    def _shut(self) -> None:
        if self._door.fileno() >= 0:
            self._loop.remove_reader(self._door)
            self._take_down()

    def _take_down(self) -> None:
        self._door.close()
        shutil.rmtree(self._closed_to_others, ignore_errors=True)
