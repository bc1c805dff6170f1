"""Receive the listening sockets of a box's calls, and serve each until its call is over.

A box's runner holds the other end, and its guards write to it before any foreign code of their call runs; a tool's own
process cannot reach it. A message consists of a label, a listening socket of the call's namespace, and a descriptor of
the guard's process, by which the kernel reports the end of the call: the guard is the first process of the call's own
namespace, or its container serves this call alone. The guard's measurement repeats the label, which leads to the call's
traffic (see `traffic`).

No foreign code ever has the other end. The engine still checks every message, and stops reading from a box that sends
too many wrong ones.
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
from sandbox.egress.traffic import CallTraffic
from sandbox.policy import Network

_LABEL_BYTES: Final = 32
_DESCRIPTORS: Final = 2
_MAX_OPEN: Final = 128
_MAX_CALLS: Final = 512
_MAX_AT_ONCE: Final = 64
_MAX_REFUSED: Final = 256
_PROCESS: Final = "anon_inode:[pidfd]"


class ListenerHandoff:
    """The receiver of a box's listeners, on a single event loop; `end` is a socket of packets."""

    def __init__(self, end: socket.socket, *, network: Network, destinations: Destinations) -> None:
        end.setblocking(False)
        self._end = end
        self._network = network
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._serving: dict[int, Proxy] = {}
        self._ending: set[Proxy] = set()
        self._traffic_of: dict[str, CallTraffic] = {}
        self._refused = 0
        self._is_closed = False
        self._loop.add_reader(end, self._take)

    def traffic(self, label: str) -> CallTraffic | None:
        """Return and forget the traffic of the call with that label; None without a listener of that call."""
        self._take()
        return self._traffic_of.pop(label, None)

    async def close(self) -> None:
        """Close all connections and listeners."""
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
        # Read everything that has arrived, unless there is more than guards send.
        for _ in range(_MAX_AT_ONCE):
            if self._is_closed or self._refused > _MAX_REFUSED:
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
        """Serve a listener, and return False if the message is invalid; only then the caller closes the descriptors."""
        is_new = len(label) == _LABEL_BYTES and label not in self._traffic_of
        if not is_new or len(descriptors) != _DESCRIPTORS or len(self._serving) >= _MAX_OPEN:
            return False
        listener, process = descriptors
        found = _listening_socket(listener) if _is_process(process) else None
        if found is None:
            return False
        self._loop.add_reader(process, self._end_call, process)
        traffic = CallTraffic(self._network)
        self._serving[process] = Proxy(found, traffic=traffic, destinations=self._destinations)
        self._traffic_of[label] = traffic
        while len(self._traffic_of) > _MAX_CALLS:
            del self._traffic_of[next(iter(self._traffic_of))]
        return True

    def _refuse(self, descriptors: Sequence[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._refused += 1
        if self._refused > _MAX_REFUSED:
            self._loop.remove_reader(self._end)

    def _end_call(self, process: int) -> None:
        """Close the proxy of a call whose guard has ended."""
        self._loop.remove_reader(process)
        os.close(process)
        proxy = self._serving.pop(process)
        proxy.close()
        self._ending.add(proxy)
        task = self._loop.create_task(proxy.closed())
        task.add_done_callback(lambda _: self._ending.discard(proxy))


def open_handoff(end: socket.socket, network: Network) -> ListenerHandoff:
    """Return the receiver for a box under a policy with this network."""
    # Each box has a resolver of its own, so that slow lookups of one box do not delay the calls of another.
    return ListenerHandoff(
        end, network=network, destinations=Destinations(network, names=Names(), proxies=HostProxies())
    )


def _descriptors(attached: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    return list(found)


def _listening_socket(descriptor: int) -> socket.socket | None:
    """Return the descriptor as a socket if it is a listening IPv4 socket."""
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
