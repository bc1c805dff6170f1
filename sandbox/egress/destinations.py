"""From a name and a port to a connection, if the policy allows it, to the very address that was checked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sandbox.egress.addresses import Address, why_not_public
from sandbox.egress.host_proxies import HostProxies, HostProxy, UnknownProxy
from sandbox.egress.http_head import END_OF_HEAD, MAX_HEAD_BYTES, Head
from sandbox.egress.names import Names
from sandbox.policy import Network
from sandbox.policy.hosts import WEB_PORTS, admits_host

_LOOKING_UP_S: Final = 10.0
_CONNECTING_S: Final = 10.0
_MAX_ADDRESSES: Final = 4
_ACCEPTED: Final = re.compile(rb"HTTP/1\.[01] 200(?: .*)?")


class Refused(Exception):
    """The proxy refuses the request: with a status, a reason of one word, and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Far:
    """An open connection to the requested host."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes
    """The head to send first; empty in a tunnel."""


class Destinations:
    """The destinations that calls under a policy may reach.

    `trusted` are hosts and ports that the operator configured, at any address and any port. With trusted hosts, this
    machine's own proxy may also look up names that are unknown here.
    """

    def __init__(
        self,
        network: Network,
        *,
        names: Names,
        proxies: HostProxies,
        trusted: Collection[tuple[str, int]] | None = None,
    ) -> None:
        self._network = network
        self._names = names
        self._proxies = proxies
        self._trusted = trusted or ()
        self._leaves_names_to_proxy = trusted is not None or bool(network.hosts)

    async def reach(self, head: Head) -> Far:
        """Connect to the host of a request; raise `Refused` if that is not allowed or fails."""
        is_trusted = (head.host, head.port) in self._trusted
        if not is_trusted:
            self._refuse_unless_admitted(head)
        proxy = self._way_to(head)
        if is_trusted:
            addresses = [] if proxy is not None else (await self._look_up(head))[:_MAX_ADDRESSES]
        else:
            addresses = await self._public_addresses(head, is_known_elsewhere=proxy is not None)
        if proxy is not None:
            return await _through(proxy, head)
        reader, writer = await _connect(addresses, head)
        return Far(reader, writer, head.onward)

    def _refuse_unless_admitted(self, head: Head) -> None:
        named = self._network.hosts
        if named and not any(admits_host(each, head.host, head.port) for each in named):
            raise Refused(403, "host", f"the policy does not name {head.host} at port {head.port}")
        if not named and head.port not in WEB_PORTS:
            raise Refused(403, "port", f"port {head.port} is not one of {', '.join(map(str, WEB_PORTS))}")

    def _way_to(self, head: Head) -> HostProxy | None:
        try:
            return self._proxies.way_to(head.host, head.port, is_tunnel=head.is_tunnel)
        except UnknownProxy as unknown:
            raise Refused(502, "proxy", str(unknown)) from None

    async def _public_addresses(self, head: Head, *, is_known_elsewhere: bool) -> list[Address]:
        """Return the host's public addresses; perhaps none if another proxy looks the name up."""
        try:
            found = await self._look_up(head)
        except Refused:
            if is_known_elsewhere and self._leaves_names_to_proxy:
                return []
            raise
        ours = await self._names.own_addresses()
        reasons = {address: why_not_public(address, ours=ours) for address in found}
        public = [address for address, why in reasons.items() if why is None]
        if not public:
            reason = next((str(why) for why in reasons.values()), "unknown")
            raise Refused(403, "address", f"{head.host} is no public address: {reason}")
        return public[:_MAX_ADDRESSES]

    async def _look_up(self, head: Head) -> list[Address]:
        try:
            async with asyncio.timeout(_LOOKING_UP_S):
                return await self._names.look_up(head.host)
        except (OSError, UnicodeError, TimeoutError):
            raise Refused(502, "name", f"no address of {head.host} is known") from None


async def _connect(addresses: list[Address], head: Head) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers."""
    # The addresses are numeric, so that no second lookup can change them.
    try:
        async with asyncio.timeout(_CONNECTING_S):
            for address in addresses:
                try:
                    return await asyncio.open_connection(str(address), head.port, limit=MAX_HEAD_BYTES)
                except OSError:
                    continue
    except TimeoutError:
        pass
    raise Refused(502, "unreachable", f"{head.host} does not answer at port {head.port}")


async def _through(proxy: HostProxy, head: Head) -> Far:
    """Connect through this machine's own proxy."""
    try:
        async with asyncio.timeout(_CONNECTING_S):
            reader, writer = await asyncio.open_connection(proxy.host, proxy.port, limit=MAX_HEAD_BYTES)
            if not head.is_tunnel:
                first, _, rest = head.absolute.partition(b"\r\n")
                return Far(reader, writer, first + b"\r\n" + proxy.authorization + rest)
            try:
                await _ask_for_tunnel(reader, writer, proxy, head)
            except BaseException:
                writer.transport.abort()
                raise
            return Far(reader, writer, b"")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise Refused(502, "proxy", "this machine's own proxy does not answer") from None


async def _ask_for_tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: HostProxy, head: Head
) -> None:
    host = f"[{head.host}]" if ":" in head.host else head.host
    place = f"{host}:{head.port}".encode()
    writer.write(b"CONNECT " + place + b" HTTP/1.1\r\nHost: " + place + b"\r\n" + proxy.authorization + b"\r\n")
    await writer.drain()
    answer = await reader.readuntil(END_OF_HEAD)
    if not _ACCEPTED.fullmatch(answer.partition(b"\r\n")[0]):
        raise Refused(502, "proxy", f"this machine's own proxy does not let us through to {head.host}")
