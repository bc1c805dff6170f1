"""Attack: sockets. Kinds that pass by a network namespace or reach into the kernel, and listeners on the host: on
its loopback, on a path, on an abstract name.

Each listener is the test's own and open to every user; the proof of the isolation is that nothing arrives there. The
test speaks to each listener from outside of a box first, to make sure that it works.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine

KINDS: Final = f"""{ATTEMPT}
def make(family: int, kind: int, protocol: int) -> None:
    descriptor = libc.socket(family, kind, protocol)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "")
    os.close(descriptor)

def make_pair(family: int) -> None:
    if libc.socketpair(family, 1, 0, (ctypes.c_int * 2)()) < 0:
        raise OSError(ctypes.get_errno(), "")

def tool(kinds: dict, plain: list) -> dict:
    answers = {{name: attempt_apart(make, *numbers) for name, numbers in kinds.items()}}
    families = [family for family in range(64) if family not in plain]
    others = {{str(family): {{attempt_apart(make, family, kind, 0) for kind in (1, 2, 3)}} for family in families}}
    pairs = {{f"pair {{family}}": {{attempt_apart(make_pair, family)}} for family in families}}
    return {{**answers, **{{name: sorted(said) for name, said in {{**others, **pairs}}.items()}}}}
"""
_STREAM, _DATAGRAM, _RAW, _SEQUENCED = 1, 2, 3, 5
_UNIX, _INTERNET, _INTERNET_6 = 1, 2, 10
HOSTILE: Final = {
    "raw": (_INTERNET, _RAW, 1),
    "raw, any protocol": (_INTERNET, _RAW, 255),
    "raw 6": (_INTERNET_6, _RAW, 58),
    "packet": (17, _RAW, 0x0300),
    "packet, cooked": (17, _DATAGRAM, 0x0300),
    "old packet": (_INTERNET, 10, 0x0300),
    "vsock": (40, _STREAM, 0),
    "netlink routes": (16, _RAW, 0),
    "netlink audit": (16, _RAW, 9),
    "netlink filters": (16, _RAW, 12),
    "kernel cryptography": (38, _SEQUENCED, 0),
    "XDP": (44, _RAW, 0),
    "keys": (15, _RAW, 2),
    "SCTP": (_INTERNET, _STREAM, 132),
    "MPTCP": (_INTERNET, _STREAM, 262),
    "DCCP": (_INTERNET, 6, 33),
}
_REFUSED: Final = {"EAFNOSUPPORT", "EPERM", "EPROTONOSUPPORT"}


@pytest.mark.slow
def test_only_plain_sockets_can_be_made(engine: Engine) -> None:
    plain = (_UNIX, _INTERNET, _INTERNET_6)
    answers = engine.value(KINDS, {"kinds": HOSTILE, "plain": plain})
    allowed = {name: said for name, said in answers.items() if not _words(said) <= _REFUSED}
    assert allowed == {}
    honest = {"unix": (_UNIX, _STREAM, 0), "TCP": (_INTERNET, _STREAM, 0), "UDP 6": (_INTERNET_6, _DATAGRAM, 0)}
    assert engine.value(KINDS, {"kinds": honest, "plain": [*range(64)]}) == dict.fromkeys(honest, "done")


def _words(said: str | list[str]) -> set[str]:
    return {said} if isinstance(said, str) else set(said)


REACH: Final = """
import socket

FAMILIES = {"unix": socket.AF_UNIX, "TCP": socket.AF_INET, "UDP": socket.AF_INET, "TCP6": socket.AF_INET6}

def reach(kind: str, address: object) -> str:
    is_datagram = kind == "UDP"
    with socket.socket(FAMILIES[kind], socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM) as near:
        near.settimeout(1)
        try:
            near.connect(tuple(address) if isinstance(address, list) else address)
            near.send(b"attack")
        except OSError as error:
            return type(error).__name__
    return "reached"

def tool(addresses: list) -> list:
    return [reach(kind, address) for kind, address in addresses]
"""


class Listeners:
    """Sockets of the host that everybody may speak to, and what they heard."""

    def __init__(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-escape-", dir="/tmp")))
        folder.chmod(0o755)
        path = str(folder / "socket")
        kinds: list[tuple[str, socket.AddressFamily, socket.SocketKind, Any]] = [
            ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("TCP6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, path),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, "\0sandbox-escape-" + secrets.token_hex(4)),
        ]
        self.addresses: list[tuple[str, Any]] = []
        self._open: list[socket.socket] = []
        for kind, family, form, address in kinds:
            listener = stack.enter_context(socket.socket(family, form))
            listener.bind(address)
            listener.setblocking(False)
            if form is socket.SOCK_STREAM:
                listener.listen()
            self._open.append(listener)
            bound = listener.getsockname()
            name = bound.decode() if isinstance(bound, bytes) else bound
            self.addresses.append((kind, list(name) if isinstance(name, tuple) else name))
        os.chmod(path, 0o777)

    def heard(self) -> list[str]:
        """Return the listeners that a process has spoken to since the last call."""
        return [kind for (kind, _), listener in zip(self.addresses, self._open, strict=True) if _has_heard(listener)]


def _has_heard(listener: socket.socket) -> bool:
    try:
        if listener.type is socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(100)
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    with ExitStack() as stack:
        yield Listeners(stack)


def test_who_listens_on_the_host_hears_nothing(engine: Engine, listeners: Listeners) -> None:
    from_outside: dict[str, Any] = {}
    exec(REACH, from_outside)
    assert set(from_outside["tool"](listeners.addresses)) == {"reached"}
    assert len(listeners.heard()) == len(listeners.addresses)
    refusals = engine.value(REACH, {"addresses": listeners.addresses})
    assert listeners.heard() == []
    assert refusals.count("ConnectionRefusedError") >= 3


INTERFACES: Final = """
def tool() -> dict:
    with open("/proc/net/dev") as interfaces, open("/proc/net/route") as routes:
        names = [line.split(":")[0].strip() for line in interfaces.readlines()[2:]]
        return {"interfaces": names, "routes": routes.readlines()[1:]}
"""


def test_there_is_no_way_to_any_network(engine: Engine) -> None:
    assert engine.value(INTERFACES) == {"interfaces": ["lo"], "routes": []}
