"""What is near this machine: addresses that nobody on the internet would mean, and that a page from there may not name.

The engine asks wherever a page says that a file is, from where it runs: a stranger's page could have it fetch what only
this machine reaches (its own services, those of its network, a cloud's metadata), and hand that to a box. So what is
listed or redirected to by an index that is not near itself has to be public; an index that is near may list what is.

An address is judged where it stands in a URL, and again when a connection to it is there and nothing was sent yet:
what a name leads to is known only then. Where a proxy makes the connections, what names lead to is the proxy's affair.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from sandbox.egress.addresses import Address, read_address, why_not_public
from sandbox.environments.indexes.answers import Fault

_LOCALHOST: Final = "localhost"


class NearAddress(Fault):
    """What was to be asked is near."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"it leads to an address that is {why}, where an index on a public address may not lead",
            remedy="use an index whose files are on public addresses, or one in the network that those are in",
        )


def refuse_near_host(host: str) -> None:
    """Raise `NearAddress` for a host that is written as a near address, or as this machine; names are not looked up."""
    if host.lower() == _LOCALHOST or host.lower().endswith(f".{_LOCALHOST}"):
        raise NearAddress("loopback")
    address = _written_address(host)
    if address is not None:
        _refuse(address)


def refuse_near_peer(peer: socket.socket) -> None:
    """Raise `NearAddress` for a connection that leads to a near address."""
    _refuse(read_address(str(peer.getpeername()[0])))


def is_near(url: str) -> bool:
    """Whether what is there is near, by its host's address or any that its name leads to; without a host it is here."""
    host = urlsplit(url).hostname
    if not host:
        return True
    try:
        refuse_near_host(host)
        for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
            _refuse(read_address(str(place[0])))
    except NearAddress:
        return True
    except (OSError, ValueError):
        return False  # nobody knows it here
    return False


def _refuse(address: Address) -> None:
    why = why_not_public(address)
    if why is not None:
        raise NearAddress(why)


def _written_address(host: str) -> Address | None:
    """The address that a host is written as, in any of the ways that connecting understands, such as `127.1`."""
    try:
        return read_address(host.strip("[]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return None
