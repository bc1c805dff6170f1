"""Takes in the listening sockets of a box's calls, and has each served until its call is over.

A box's runner holds the other end, and its guards write to it before any foreign code of their call runs; a tool's own
process has no way there. One message is a label, a listening socket of the call's namespace, and a descriptor of the
guard's process, by which the kernel tells when the call is over: the guard is the first process of the call's own
namespace, or its container is there for this call alone. The label comes back with the walls that the guard measured,
and so a call's books are found (see `books`).

No foreign code ever has this way. What arrives is checked all the same, and a box that goes on sending is not heard any
more.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from sandbox.egress.destinations import Destinations
from sandbox.egress.host_proxies import HostProxies
from sandbox.egress.names import Names
from sandbox.egress.proxy import Proxy
from sandbox.egress.traffic import Ledger
from sandbox.policy import Network

_LABEL_BYTES: Final = 32
_DESCRIPTORS: Final = 2
_MOST_OPEN: Final = 128
_MOST_BOOKS: Final = 512
_MOST_AT_ONCE: Final = 64
_MOST_REFUSED: Final = 256
_PROCESS: Final = "anon_inode:[pidfd]"


class Porter:
    """One box's; made on, and used from, one event loop. `end` is a socket of packets."""

    def __init__(self, end: socket.socket, *, network: Network, destinations: Destinations) -> None:
        end.setblocking(False)
        self._end = end
        self._network = network
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._serving: dict[int, Proxy] = {}
        self._ending: set[Proxy] = set()
        self._books: dict[str, Ledger] = {}
        self._refused = 0
        self._is_closed = False
        self._loop.add_reader(end, self._take)

    def books(self, label: str) -> Ledger | None:
        """Those of the call with that label, which are then forgotten here; None where nothing was handed over."""
        self._take()
        return self._books.pop(label, None)

    async def close(self) -> None:
        """Hang up on everyone, and let go of everything."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._end)
        self._end.close()
        for process in list(self._serving):
            self._end_call(process)
        for proxy in list(self._ending):
            await proxy.closed()

    def _take(self) -> None:
        """What has come; all of it, unless that is more than guards send."""
        for _ in range(_MOST_AT_ONCE):
            if self._is_closed or self._refused > _MOST_REFUSED:
                return
            try:
                label, attached, flags, _ = self._end.recvmsg(
                    _LABEL_BYTES, socket.CMSG_SPACE(_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
                )
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                label, attached, flags = b"", [], 0
            descriptors = _descriptors(attached)
            if not label and not descriptors:
                self._loop.remove_reader(self._end)
                return
            is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            if not is_whole or not self._serve(label.decode("ascii", "replace"), descriptors):
                self._refuse(descriptors)

    def _serve(self, label: str, descriptors: Sequence[int]) -> bool:
        """Whether it was what it should be; then the descriptors are in good hands."""
        is_new = len(label) == _LABEL_BYTES and label not in self._books
        if not is_new or len(descriptors) != _DESCRIPTORS or len(self._serving) >= _MOST_OPEN:
            return False
        listener, process = descriptors
        found = _listening_socket(listener) if _is_process(process) else None
        if found is None:
            return False
        self._loop.add_reader(process, self._end_call, process)
        ledger = Ledger(self._network)
        self._serving[process] = Proxy(found, ledger=ledger, destinations=self._destinations)
        self._books[label] = ledger
        while len(self._books) > _MOST_BOOKS:
            del self._books[next(iter(self._books))]
        return True

    def _refuse(self, descriptors: Sequence[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._refused += 1
        if self._refused > _MOST_REFUSED:
            self._loop.remove_reader(self._end)

    def _end_call(self, process: int) -> None:
        """Its guard is gone."""
        self._loop.remove_reader(process)
        os.close(process)
        proxy = self._serving.pop(process)
        proxy.close()
        self._ending.add(proxy)
        task = self._loop.create_task(proxy.closed())
        task.add_done_callback(lambda _: self._ending.discard(proxy))


def open_porter(end: socket.socket, network: Network) -> Porter:
    """The porter of one box under a policy with this network. Names are looked up for each box apart: one whose calls
    ask for names that take long keeps nobody else waiting."""
    return Porter(end, network=network, destinations=Destinations(network, names=Names(), proxies=HostProxies()))


def _descriptors(attached: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    return list(found)


def _listening_socket(descriptor: int) -> socket.socket | None:
    """It as a socket, if it is one that listens for connections of version 4."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    with suppress(OSError):
        is_listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if (found.family, found.type) == (socket.AF_INET, socket.SOCK_STREAM) and is_listening:
            return found
    found.detach()
    return None


def _is_process(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == _PROCESS
    except OSError:
        return False
