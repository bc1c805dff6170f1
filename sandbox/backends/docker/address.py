"""Where the daemon is, for connections of our own beside the SDK's: its socket, a host over TLS or not, or over SSH."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox.backends.docker.daemon import address_of
from sandbox.errors import BackendUnavailable

_PORTS: Final = {True: 2376, False: 2375}


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon's address, read from what people write into DOCKER_HOST."""

    url: str
    certificates: Path | None = None
    """The folder with ca.pem, cert.pem and key.pem; None: no TLS."""
    is_verified: bool = True

    @property
    def is_socket(self) -> bool:
        """Whether it is a unix socket, which nearly always means: on this machine."""
        return self.url.startswith("unix://")

    @property
    def name(self) -> str:
        """The host."""
        return urlsplit(self.url).hostname or "localhost"

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Open a connection; what goes wrong is `BackendUnavailable`."""
        try:
            await self._connect(protocol)
        except (OSError, ssl.SSLError, ValueError) as error:
            remedy = "see whether the daemon still runs, with `docker info`"
            raise BackendUnavailable(f"no Docker daemon answers at {self.url[:200]}: {error}", remedy=remedy) from error

    async def _connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        if self.is_socket:
            await loop.create_unix_connection(protocol, self.url.removeprefix("unix://"))
            return
        parts = urlsplit(self.url)
        if parts.scheme == "ssh":
            from sandbox.backends.docker.ssh_socket import dial

            await loop.create_connection(protocol, sock=dial(self.url))
            return
        tls = self._tls()
        await loop.create_connection(protocol, self.name, parts.port or _PORTS[tls is not None], ssl=tls)

    def _tls(self) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        trusted = ssl.create_default_context(cafile=self.certificates / "ca.pem")
        trusted.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        if not self.is_verified:
            trusted.check_hostname, trusted.verify_mode = False, ssl.CERT_NONE
        return trusted


def find_address(host: str | None = None, *, variables: Mapping[str, str] = os.environ) -> Address:
    """The daemon that is named, or the one of DOCKER_HOST, or the machine's own."""
    url = address_of(host, variables=variables)
    verify = variables.get("DOCKER_TLS_VERIFY", "")
    folder = variables.get("DOCKER_CERT_PATH", "")
    if not url.startswith("tcp://") or not (verify or folder):
        return Address(url)
    return Address(url, Path(folder or Path.home() / ".docker"), is_verified=bool(verify))
