"""Attack: hold memory of kinds that are not any process's own: socket buffers, files without a name, queues.

A limit of memory that counts the pages of processes only is no limit: the host runs out of memory all the same, and of
its share for network buffers, which all its programs have in common.

Only a control group counts them. Where there is none for a call, its receipt says what is not limited. An attack stops
at twice its limit, which is proof enough: on some hosts a single socket holds 64 MiB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from tests.escape.without_root import run_without_root

LIMIT: Final = 64 << 20
_MOST: Final = 2 * LIMIT
_SLACK: Final = LIMIT // 8
"""Every socket may hold a first piece, however little is left."""
WATCHED: Final = ("watcher", "counts neither socket buffers nor unmapped memfds")
SOCKETS: Final = """
import socket

def tool(pairs: int, most: int) -> int:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ends = []
    for _ in range(pairs):
        near = socket.socket()
        near.connect(listener.getsockname())
        ends += [near, listener.accept()[0]]
    held = 0
    for end in ends:
        end.settimeout(0.01)
        try:
            while held < most:
                held += end.send(bytes(1 << 18))
        except OSError:
            continue
    return held
"""
NAMELESS: Final = """
import os

def tool(files: int, most: int) -> int:
    held, descriptors = 0, [os.memfd_create("held") for _ in range(files)]
    while held < most:
        held += sum(os.write(descriptor, b"x" * (1 << 20)) for descriptor in descriptors)
    return held
"""
DATAGRAMS: Final = """
import socket

def tool(count: int, most: int) -> int:
    ends, held, room = [], 0, 0
    while len(ends) < count and room < 2 * most:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind(("127.0.0.1", 0))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        ends.append(end)
        own = end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        for _ in range(own // 60000 + 1):
            ends[0].sendto(bytes(60000), end.getsockname())
        room += own
        end.setblocking(False)
    for end in ends:
        try:
            while True:
                held += len(end.recv(65536))
        except OSError:
            continue
    return held
"""
UNIX: Final = """
import socket

def tool(pairs: int, most: int) -> int:
    ends, held = [], 0
    for _ in range(pairs):
        for end in socket.socketpair():
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
            ends.append(end)
            try:
                while held < most:
                    held += end.send(bytes(1 << 16))
            except OSError:
                continue
    return held
"""
PIPES: Final = """
import fcntl, os

def tool(pipes: int, most: int) -> int:
    held = 0
    for _ in range(pipes):
        near, far = os.pipe()
        try:
            fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, 1 << 20)
        except OSError:
            pass
        os.set_blocking(far, False)
        try:
            while held < most:
                held += os.write(far, b"x" * 65536)
        except OSError:
            continue
    return held
"""
KINDS: Final[dict[str, tuple[str, dict[str, int]]]] = {
    "TCP buffers": (SOCKETS, {"pairs": 40, "most": _MOST}),
    "UDP buffers": (DATAGRAMS, {"count": 240, "most": _MOST}),
    "unix socket buffers": (UNIX, {"pairs": 110, "most": _MOST}),
    "files without a name": (NAMELESS, {"files": 6, "most": _MOST}),
    "pipes": (PIPES, {"pipes": 110, "most": _MOST}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_outside_of_processes_is_limited_too(kind: str, sandbox: Sandbox) -> None:
    source, args = KINDS[kind]
    outcome = sandbox.run(source, args, limits={"memory": LIMIT})
    assert _is_limited(outcome.status, outcome.value), f"held {outcome.value} bytes"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TCP buffers", "UDP buffers", "unix socket buffers", "files without a name"])
def test_memory_outside_of_processes_is_limited_without_root_or_the_receipt_says_it_is_not(
    kind: str, unprivileged_python: Path
) -> None:
    source, args = KINDS[kind]
    outcome = run_without_root(unprivileged_python, source, args, limits={"memory": LIMIT})
    state = outcome["receipt"]["limits"]["memory"]
    is_admitted = (state["enforced_by"], state["note"]) == WATCHED
    assert is_admitted or _is_limited(outcome["status"], outcome["value"]), state


@pytest.mark.slow
def test_the_kernel_bounds_the_pipes_of_a_user_without_root(unprivileged_python: Path) -> None:
    source, args = KINDS["pipes"]
    outcome = run_without_root(unprivileged_python, source, args, limits={"memory": LIMIT})
    assert _is_limited(outcome["status"], outcome["value"])


def _is_limited(status: str, held: Any) -> bool:
    """Stopped, or refused by the kernel while it still held no more than its limit."""
    return status in ("memory", "exception", "limit", "crashed") or held <= LIMIT + _SLACK
