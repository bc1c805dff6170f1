"""Attack: hold memory of kinds that are not any process's own: socket buffers, files without a name, queues.

A limit of memory that counts the pages of processes only is no limit: the host runs out of memory all the same, and of
its share for network buffers, which all its programs have in common.

A control group counts all of them. Where a call has none, its filter refuses most kinds, and a watch counts the others.
An attack stops at twice its limit, which is proof enough: on some hosts a single socket holds 64 MiB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from tests.escape.without_root import run_all_without_root

LIMIT: Final = 64 << 20
_MOST: Final = 2 * LIMIT
_SLACK: Final = LIMIT // 8
"""Every socket may hold a first piece, however little is left."""
KEEP: Final = f"""
import time

def keep(held: int) -> int:
    # Without a control group, the engine counts this memory a few times a second: too much is held until it looks.
    if held > {LIMIT + _SLACK}:
        time.sleep(600)
    return held
"""
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
    return keep(held)
"""
NAMELESS: Final = """
import os

def tool(files: int, most: int) -> int:
    held, descriptors = 0, [os.memfd_create("held") for _ in range(files)]
    while held < most:
        held += sum(os.write(descriptor, b"x" * (1 << 20)) for descriptor in descriptors)
    return keep(held)
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
    return keep(held)
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
    return keep(held)
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
    return keep(held)
"""
CROWD: Final = """
import os, socket, time

def fill() -> int:
    held = 0
    for _ in range(110):
        for end in socket.socketpair():
            ends.append(end)
            end.setblocking(False)
            try:
                while True:
                    held += end.send(bytes(1 << 16))
            except OSError:
                continue
    return held

def tool(processes: int) -> int:
    global ends
    ends, totals = [], []
    for _ in range(processes):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(fill()).encode())
            time.sleep(60)
        os.close(write)
        totals.append(read)
    held = sum(int(os.read(total, 20)) for total in totals)
    return keep(held)
"""
SHARED: Final = """
import mmap, os

def tool(path: str, most: int) -> int:
    flags = mmap.MAP_SHARED if path else mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    file = os.open(path, os.O_RDWR) if path else -1
    memory = mmap.mmap(file, most, flags=flags, access=mmap.ACCESS_DEFAULT)
    for start in range(0, most, 1 << 20):
        memory[start : start + (1 << 20)] = b"x" * (1 << 20)
        memory.madvise(mmap.MADV_DONTNEED, start, 1 << 20)  # the process lets go of the page, the kernel does not
    assert memory[0] == ord("x")
    return keep(most)
"""
SYSTEM_V: Final = """
import ctypes, os

def tool(kind: str, most: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    held = 0
    while held < most:
        if kind == "segments":
            number = libc.shmget(0, 1 << 20, 0o600)
            place = libc.shmat(number, None, 0) if number >= 0 else None
            if place:
                ctypes.memset(place, 1, 1 << 20)
                libc.shmdt(ctypes.c_void_p(place))
                held += 1 << 20
        elif kind == "messages":
            number = libc.msgget(0, 0o600)
            for _ in range(2):
                held += 8192 if libc.msgsnd(number, (1).to_bytes(8, "little") + bytes(8192), 8192, 0o4000) == 0 else 0
        else:
            number = libc.semget(0, 32000, 0o600)
            held += 32000 * 64
        if number < 0:
            raise OSError(ctypes.get_errno(), kind)
    return keep(held)
"""
PAGE_TABLES: Final = """
import ctypes, mmap

def tool(most: int) -> int:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    held, piece = 0, 1 << 34
    while held < most:
        # reading untouched memory costs a page of zeros that all share, and a table for each 2 MiB
        place = libc.mmap(None, ctypes.c_size_t(piece), 1, 0x4022, -1, 0)
        libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(piece), 15)  # no huge pages
        for start in range(place, place + piece, 1 << 21):
            ctypes.c_char.from_address(start).value
            held += 4096
    return keep(held)
"""
KINDS: Final[dict[str, tuple[str, dict[str, int | str]]]] = {
    "TCP buffers": (SOCKETS, {"pairs": 40, "most": _MOST}),
    "UDP buffers": (DATAGRAMS, {"count": 240, "most": _MOST}),
    "unix socket buffers": (UNIX, {"pairs": 110, "most": _MOST}),
    "files without a name": (NAMELESS, {"files": 6, "most": _MOST}),
    "pipes": (PIPES, {"pipes": 110, "most": _MOST}),
    "unix sockets of many processes": (CROWD, {"processes": 10}),
    "shared memory let go of": (SHARED, {"path": "", "most": _MOST}),
    "a device of zeros let go of": (SHARED, {"path": "/dev/zero", "most": _MOST}),
    "System V segments": (SYSTEM_V, {"kind": "segments", "most": _MOST}),
    "System V messages": (SYSTEM_V, {"kind": "messages", "most": _MOST}),
    "System V semaphores": (SYSTEM_V, {"kind": "semaphores", "most": _MOST}),
    "page tables": (PAGE_TABLES, {"most": _MOST}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_outside_of_processes_is_limited_too(kind: str, sandbox: Sandbox) -> None:
    source, args = KINDS[kind]
    outcome = sandbox.run(source + KEEP, args, limits={"memory": LIMIT})
    assert _is_limited(outcome.status, outcome.value), f"held {outcome.value} bytes"


@pytest.mark.slow
def test_memory_outside_of_processes_is_limited_without_root_too(unprivileged_python: Path) -> None:
    calls: list[dict[str, object]] = [
        {"source": source + KEEP, "args": args, "limits": {"memory": LIMIT, "wall": 20}}
        for source, args in KINDS.values()
    ]
    outcomes = dict(zip(KINDS, run_all_without_root(unprivileged_python, calls), strict=True))
    assert {
        kind: (outcome["status"], outcome["value"])
        for kind, outcome in outcomes.items()
        if not _is_limited(outcome["status"], outcome["value"])
    } == {}


def _is_limited(status: str, held: Any) -> bool:
    """Stopped, or refused by the kernel while it still held no more than its limit."""
    return status in ("memory", "exception", "limit", "crashed") or held <= LIMIT + _SLACK


HONEST: Final = """
import asyncio, mmap, multiprocessing, os, socket, tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory

async def talk() -> str:
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0, limit=1 << 20) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1 << 20)
        writer.write(b"hello" * 100_000 + b"\\n")
        return (await reader.readline())[:5].decode()

def tool() -> list:
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[:5] = b"hello"
    memory.close()
    memory.unlink()
    numbers = multiprocessing.Array("i", [1, 2, 3])
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool, ProcessPoolExecutor(2, mp_context=fork) as executor:
        found = [pool.map(abs, [-1, -2]), list(executor.map(abs, [-3]))]
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096) as mapped:
            mapped[:2] = b"hi"
    sockets = [socket.socketpair() for _ in range(50)]
    return [*found, list(numbers), asyncio.run(talk()), len(sockets)]
"""


@pytest.mark.slow
def test_honest_programs_run_where_nothing_counts_such_memory(unprivileged_python: Path) -> None:
    (outcome,) = run_all_without_root(unprivileged_python, [{"source": HONEST, "args": {}}])
    assert outcome["value"] == [[1, 2], [3], [1, 2, 3], "hello", 50], outcome["error"]
