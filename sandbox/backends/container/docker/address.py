"""The daemon's address: a socket, a host with TLS or without, or a host behind SSH.

`DOCKER_HOST` (with `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`) names the daemon, or the caller does; otherwise the
machine's own socket is used. Podman's compatible socket, a remote daemon over TLS and one over SSH are daemons like any
other.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox.errors import BackendUnavailable

LOCAL_SOCKET: Final = "unix:///var/run/docker.sock"
_ANY_SOCKET: Final = "unix://"
_PORTS: Final = {True: 2376, False: 2375}


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon's address, for connections of our own in addition to the SDK's."""

    url: str
    certificates: Path | None = None
    """The folder with ca.pem, cert.pem and key.pem; None: no TLS."""
    is_verified: bool = True

    @property
    def is_socket(self) -> bool:
        """Return whether the address is a unix socket, which nearly always leads to this machine."""
        return self.url.startswith("unix://")

    @property
    def name(self) -> str:
        """Return the host's name."""
        return urlsplit(self.url).hostname or "localhost"

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Open a connection; raise `BackendUnavailable` if that fails."""
        try:
            await self._connect(protocol)
        except (OSError, ssl.SSLError, ValueError) as error:
            remedy = "check with `docker info` whether the daemon still runs"
            raise BackendUnavailable(f"no Docker daemon answers at {self.url[:200]}: {error}", remedy=remedy) from error

    async def _connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        if self.is_socket:
            await loop.create_unix_connection(protocol, self.url.removeprefix("unix://"))
            return
        parts = urlsplit(self.url)
        if parts.scheme == "ssh":
            from sandbox.backends.container.docker.ssh_socket import dial

            await loop.create_connection(protocol, sock=dial(self.url))
            return
        tls = self._tls()
        await loop.create_connection(protocol, self.name, parts.port or _PORTS[tls is not None], ssl=tls)

    def _tls(self) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        context = ssl.create_default_context(cafile=self.certificates / "ca.pem")
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def find_url(host: str | None = None, *, variables: Mapping[str, str] = os.environ) -> str:
    """Return the named daemon's URL, or that of DOCKER_HOST, or the machine's own."""
    found = host or variables.get("DOCKER_HOST") or LOCAL_SOCKET
    return LOCAL_SOCKET if found == _ANY_SOCKET else found


def find_address(host: str | None = None, *, variables: Mapping[str, str] = os.environ) -> Address:
    """Return the named daemon's address, or that of DOCKER_HOST, or the machine's own."""
    url = find_url(host, variables=variables)
    if not uses_tls(url, variables=variables):
        return Address(url)
    verify = variables.get("DOCKER_TLS_VERIFY", "")
    folder = variables.get("DOCKER_CERT_PATH", "")
    return Address(url, Path(folder or Path.home() / ".docker"), is_verified=bool(verify))


def uses_tls(url: str, *, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether connections to that URL use TLS."""
    is_asked = variables.get("DOCKER_TLS_VERIFY") or variables.get("DOCKER_CERT_PATH")
    return url.startswith("tcp://") and bool(is_asked)
