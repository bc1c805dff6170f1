"""Attacks by sockets: kinds that pass by a network namespace, services of the host, addresses outside.

No packet leaves the machine, even where no wall stands: towards outside addresses only a route is asked for.
"""

from __future__ import annotations

from typing import Final

from sandbox.attacks.attack import Attack, nothing_gained, only_without_network
from sandbox.attacks.trying import TRYING

_KINDS: Final = f"""{TRYING}
KINDS = {{
    "raw": (2, 3, 1), "raw, any protocol": (2, 3, 255), "raw 6": (10, 3, 58), "packet": (17, 3, 0x0300),
    "packet, cooked": (17, 2, 0x0300), "hypervisor (vsock)": (40, 1, 0), "vsock datagrams": (40, 2, 0),
    "netlink routes": (16, 3, 0), "netlink audit": (16, 3, 9), "netlink filters": (16, 3, 12),
    "kernel cryptography": (38, 5, 0), "XDP": (44, 3, 0), "keys": (15, 3, 2), "SCTP": (2, 1, 132),
    "bluetooth": (31, 3, 1), "CAN": (29, 3, 1), "TIPC": (30, 1, 0), "RDS": (21, 5, 0),
}}

def make(family, kind, protocol) -> None:
    descriptor = libc.socket(family, kind, protocol)
    failed(descriptor)
    os.close(descriptor)

def attack() -> dict:
    must(attempt_apart("a unix socket", make, 1, 1, 0))
    for what, numbers in KINDS.items():
        attempt_apart(what, make, *numbers)
    return report()
"""
_SERVICES: Final = f"""{TRYING}
FAMILIES = {{"unix": socket.AF_UNIX, "TCP": socket.AF_INET, "UDP": socket.AF_INET, "TCP6": socket.AF_INET6}}

def speak(kind, address) -> None:
    with socket.socket(FAMILIES[kind], socket.SOCK_DGRAM if kind == "UDP" else socket.SOCK_STREAM) as near:
        near.settimeout(1)
        near.connect(tuple(address) if isinstance(address, list) else address)
        if kind != "UDP":
            near.send(b"attack")
            return
        near.send(b"attack")
        near.recv(1)  # where nobody listens, this is refused

def attack(addresses: list) -> dict:
    for kind, address in addresses:
        attempt(kind + " " + str(address).replace(chr(0), "@"), speak, kind, address)
    return report()
"""
_OUTSIDE: Final = f"""{TRYING}
ADDRESSES = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.2.1", "10.0.0.1", "192.168.1.1", "8.8.8.8"]
ADDRESSES_6 = ["fd00:ec2::254", "2001:db8::1"]

def find_route(family, address) -> None:
    # connecting a datagram socket sends nothing; it fails where there is no route
    with socket.socket(family, socket.SOCK_DGRAM) as near:
        near.connect((address, 53))

def resolve(name) -> None:
    socket.getaddrinfo(name, 80)

def attack() -> dict:
    for address in ADDRESSES:
        attempt("a route to " + address, find_route, socket.AF_INET, address)
    for address in ADDRESSES_6:
        attempt("a route to " + address, find_route, socket.AF_INET6, address)
    if "done" not in answers.values():
        attempt("the name metadata.google.internal", resolve, "metadata.google.internal")
        attempt("the name example.com", resolve, "example.com")
    return report()
"""

NETWORK: Final = (
    Attack(
        "other sockets",
        "make raw, packet, netlink and vsock sockets, which need no network",
        _KINDS,
        nothing_gained,
    ),
    Attack(
        "services of the host",
        "speak to listeners on the host's loopback, on a path, on an abstract name",
        _SERVICES,
        nothing_gained,
        facts=("addresses",),
        is_asked=only_without_network,
    ),
    Attack(
        "addresses outside",
        "find a way to the metadata service, private networks, name servers",
        _OUTSIDE,
        nothing_gained,
        is_asked=only_without_network,
    ),
)
