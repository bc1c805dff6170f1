"""Attacks with sockets: kinds that bypass a network namespace, services of the host, addresses outside.

A program asks the proxy that calls have if their policy opens public addresses. No packet leaves the machine, even
without isolation: the programs only look for a route to outside addresses, and ask the proxy for this machine's own
services.
"""

from __future__ import annotations

from typing import Final

from sandbox.doctor.attacks.attack import TRYING, Attack, Program, unless_network_is_open
from sandbox.egress import PORT

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
_SHOWN: Final = f"""{TRYING}
def connect(path) -> None:
    with socket.socket(socket.AF_UNIX) as near:
        near.connect(path)

def send(path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as near:
        near.sendto(b"attack", path)

def send_from_a_pair(path) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.sendto(b"attack", path)

def attack(shown: str) -> dict:
    must(attempt("a file in the folder", open_only, shown + "/file", os.O_RDONLY))
    attempt("a stream", connect, shown + "/stream")
    attempt("a datagram", send, shown + "/datagram")
    attempt("a datagram from a pair", send_from_a_pair, shown + "/datagram")
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
_PROXY: Final = f"""{TRYING}
LOOPBACKS = ["127.0.0.1", "127.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::1]",
             "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]
REFUSED = (b"malformed", b"host", b"port", b"address", b"name")

def ask(request) -> None:
    with socket.create_connection(("127.0.0.1", {PORT}), timeout=10) as near:
        near.sendall(request.encode())
        answer = near.recv(65536)
    head = answer.lower().split(b"\\r\\n\\r\\n")[0].split(b"\\r\\n")
    if any(line == b"x-sandbox-egress: " + reason for line in head for reason in REFUSED):
        raise OSError("refused by the proxy")

def speak_to_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        socket.create_connection(own.getsockname(), timeout=10).close()

def attack(addresses: list) -> dict:
    must(attempt("speak to its own loopback", speak_to_itself))
    places = [host + ":" + port for host in LOOPBACKS for port in ("80", "443")]
    places += [("[" + each[0] + "]" if ":" in each[0] else each[0]) + ":" + str(each[1])
               for kind, each in addresses if kind.startswith("TCP")]
    for place in places:
        attempt("CONNECT " + place, ask, "CONNECT " + place + " HTTP/1.1\\r\\n\\r\\n")
        attempt("GET " + place, ask, "GET http://" + place + "/ HTTP/1.1\\r\\n\\r\\n")
    return report()
"""

NETWORK: Final = (
    Attack(
        "other sockets",
        "make raw, packet, netlink and vsock sockets, which need no network",
        (Program("other sockets", _KINDS),),
    ),
    Attack(
        "services of the host",
        "speak to the host's listeners: on its loopback, on a path, in a shown folder, through the engine's proxy",
        (
            Program("services of the host", _SERVICES, facts=("addresses",)),
            Program("socket in a shown folder", _SHOWN, facts=("shown",), shows=("shown",)),
            Program("the way by a proxy", _PROXY, facts=("addresses",)),
        ),
        is_asked=unless_network_is_open,
    ),
    Attack(
        "addresses outside",
        "find a route to the metadata service, private networks, name servers",
        (Program("addresses outside", _OUTSIDE),),
        is_asked=unless_network_is_open,
    ),
)
