"""The test for public addresses: addresses with the same meaning everywhere on the internet.

The refused networks are written out, from the registries of special-purpose addresses; Python's own lists have changed
between releases, and must agree in addition. In version 6 only global unicast is public. A version 4 address inside a
version 6 address must be public itself, because a translator would connect to it. The addresses of this machine's
interfaces lead to its own services even if they look public, and so does the address at which a cloud serves its
machines.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

_REFUSED_4: Final = {
    "this network": ("0.0.0.0/8",),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "shared by a provider's customers": ("100.64.0.0/10",),
    "loopback": ("127.0.0.0/8",),
    "link-local, where clouds serve metadata": ("169.254.0.0/16",),
    "a cloud's own service for its machines": ("168.63.129.16/32",),
    "reserved for protocols": ("192.0.0.0/24", "192.88.99.0/24"),
    "for documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    "for benchmarks": ("198.18.0.0/15",),
    "multicast": ("224.0.0.0/4",),
    "reserved": ("240.0.0.0/4",),
}
_REFUSED_6: Final = {
    "loopback": ("::1/128",),
    "unspecified": ("::/128",),
    "private": ("fc00::/7",),
    "link-local": ("fe80::/10",),
    "multicast": ("ff00::/8",),
    "reserved for protocols": ("2001::/23",),
    "for documentation": ("2001:db8::/32", "3fff::/20"),
}
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# The position of a version 4 address inside a version 6 address, in bits from its end.
_CARRIERS: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
_NETWORKS_4: Final = [(IPv4Network(text), why) for why, texts in _REFUSED_4.items() for text in texts]
_NETWORKS_6: Final = [(IPv6Network(text), why) for why, texts in _REFUSED_6.items() for text in texts]


def why_not_public(address: Address, *, ours: Collection[Address] = ()) -> str | None:
    """Return the reason why an address is not public, or None; `ours` are the addresses of this machine."""
    if isinstance(address, IPv6Address) and (carried := carried_address(address)) is not None:
        return why_not_public(carried, ours=ours)
    if address in ours:
        return "this machine's own"
    if isinstance(address, IPv4Address):
        return next((why for network, why in _NETWORKS_4 if address in network), _unless_global(address))
    known = next((why for network, why in _NETWORKS_6 if address in network), None)
    return known or ("reserved" if address not in _GLOBAL_UNICAST else _unless_global(address))


def carried_address(address: IPv6Address) -> IPv4Address | None:
    """Return the version 4 address inside a version 6 address, if there is one."""
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None


def read_address(text: str) -> Address:
    """Parse an address from the resolver, perhaps with an interface after it; raise `ValueError` for other text."""
    return ip_address(text.partition("%")[0])


def _unless_global(address: Address) -> str | None:
    return None if address.is_global else "not global"
