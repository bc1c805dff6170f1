"""The way to the indexes: the egress proxy on a unix socket, for one resolution or one build.

uv in its box and the engine's own downloads both go this way, so one place decides what they reach: the hosts that this
machine or the policy configures at any address, other hosts at public addresses only. Where this machine has a proxy of
its own, the egress proxy dials through it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sandbox.egress.destinations import Destinations
from sandbox.egress.host_proxies import HostProxies
from sandbox.egress.names import Names
from sandbox.egress.proxy import Proxy
from sandbox.egress.traffic import CallTraffic
from sandbox.environments.indexes.settings import IndexSettings
from sandbox.policy import Network, NetworkMode

_MAX_CONNECTIONS: Final = 64
_MAX_CONNECTIONS_IN_ALL: Final = 20_000
_MAX_SENT: Final = 256 << 20
_MAX_RECEIVED: Final = 64 << 30
_MIN_IDLE_S: Final = 60.0
_MAX_SOCKET_PATH: Final = 100
_BACKLOG: Final = 128
FORBIDDEN: Final = ("address", "port", "host")
"""The reasons for which the proxy refuses what another attempt would not reach either."""
_NO_HOST: Final = "offline.invalid"
"""The only host that is admitted offline; no network has it (RFC 2606)."""


class IndexProxy:
    """A running proxy: its socket, and the requests that it refused."""

    def __init__(self, path: Path, traffic: CallTraffic) -> None:
        self.path = path
        """The socket that it listens at."""
        self._traffic = traffic

    @property
    def refused(self) -> list[tuple[str, str]]:
        """The hosts that were asked for and may not be reached, each with the proxy's word for the reason."""
        return [(host, reason) for reason in FORBIDDEN for host in self._traffic.refused_hosts(reason)]


@asynccontextmanager
async def open_index_proxy(settings: IndexSettings, folder: Path) -> AsyncIterator[IndexProxy]:
    """Serve at a socket in this folder, which only the engine and the box can reach."""
    path = folder / "indexes.sock"
    network = Network(
        mode=NetworkMode.INDEX,
        hosts=(_NO_HOST,) if settings.offline else (),
        connections=_MAX_CONNECTIONS,
        connections_in_all=_MAX_CONNECTIONS_IN_ALL,
        sent=_MAX_SENT,
        received=_MAX_RECEIVED,
        idle=max(_MIN_IDLE_S, 2 * settings.timeout_s),
    )
    traffic = CallTraffic(network)
    trusted = frozenset() if settings.offline else settings.trusted_origins
    destinations = Destinations(network, names=Names(), proxies=HostProxies(settings.proxies), trusted=trusted)
    proxy = Proxy(_listen(path), traffic=traffic, destinations=destinations)
    try:
        yield IndexProxy(path, traffic)
    finally:
        proxy.close()
        await proxy.closed()
        path.unlink(missing_ok=True)


def connect_to(path: Path) -> socket.socket:
    """Return a connection to the unix socket at this path, however long the path is."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _ShortPath(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _ShortPath(path) as short:
            listener.bind(short)
        path.chmod(0o666)  # the box may run as another user; its folder keeps others out
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


class _ShortPath:
    """A path to a socket by way of its folder's descriptor, where the path is longer than an address may be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _MAX_SOCKET_PATH:
            return str(self._path)
        self._folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            os.close(self._folder)
