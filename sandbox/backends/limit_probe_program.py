"""A program that goes beyond a limit, to show whether the limit bites. Never imported, only run inside boxes.

Two callers run the text of this file:

- `limit_probes` as a tool, with the entry `probe`: the call takes four times the limit, and returns if nothing stops
  it.
- the container backend as a container's only process, with `name=limit` arguments. The exit code is 64 plus one bit for
  each limit that held, in the order of the arguments, so that no output has to be kept or read. A limit holds if the
  kernel granted at least half of it and refused more than all of it.

Taking ends at four times a small limit, so that a host on which a limit does not bite comes to no harm. Python 3.8,
like everything that runs inside.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

HELD = 64
TIMES = 4
CHUNK = 1 << 16
CHUNKS_OF_A_FILE = 16
PLACE = "/work"
IS_UP, SIOCGIFFLAGS = 1, 0x8913
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
ROUTES = ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9)))


def wall(limit: float) -> Iterator[None]:
    time.sleep(TIMES * limit)
    yield


def cpu(limit: float) -> Iterator[None]:
    while time.process_time() < TIMES * limit:
        pass
    yield


def memory(limit: int) -> Iterator[None]:
    held = []
    for _ in range(TIMES * limit // CHUNK):
        held.append(b"x" * CHUNK)
        yield


def processes(limit: int) -> Iterator[None]:
    children = []
    try:
        for _ in range(TIMES * limit):
            child = os.fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
            children.append(child)
            yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def open_files(limit: int) -> Iterator[None]:
    opened = []
    try:
        for _ in range(TIMES * limit):
            opened.append(os.open(os.devnull, os.O_RDONLY))
            yield
    finally:
        for number in opened:
            os.close(number)


def file_size(limit: int) -> Iterator[None]:
    with open("large", "wb", buffering=0) as file:
        for _ in range(TIMES * limit // CHUNK):
            file.write(b"x" * CHUNK)
            yield


def disk(limit: int) -> Iterator[None]:
    for number in range(TIMES * limit // CHUNK):
        # Several files, because each has a limit of its own. The files stay, so that the engine sees a full disk.
        with open("full-%d" % (number // CHUNKS_OF_A_FILE), "ab", buffering=0) as file:
            file.write(b"x" * CHUNK)
        yield


def inodes(limit: int) -> Iterator[None]:
    for number in range(TIMES * limit):
        os.close(os.open("many-%d" % number, os.O_CREAT | os.O_WRONLY))
        yield


def output(limit: int) -> Iterator[None]:
    for _ in range(TIMES * limit // CHUNK):
        print("x" * (CHUNK - 1))
        yield


TAKERS: dict[str, Callable[..., Iterator[None]]] = {
    each.__name__: each for each in (wall, cpu, memory, processes, open_files, file_size, disk, inodes, output)
}
IN_CHUNKS = (memory, file_size, disk, output)


def probe(name: str, limit: float) -> str:
    """Take four times the limit."""
    if name == "value":
        return "x" * (TIMES * int(limit))
    for _ in TAKERS[name](limit if name in ("wall", "cpu") else int(limit)):
        pass
    return "it got all it asked for"


def holds(taker: Callable[[int], Iterator[None]], limit: int) -> bool:
    granted, most = 0, limit // CHUNK if taker in IN_CHUNKS else limit
    try:
        for _ in taker(limit):
            granted += 1
    except OSError:
        return most // 2 <= granted <= most
    return False


def is_alone(_: int) -> bool:
    """Return whether nothing outside can be reached; asking for a route sends nothing."""
    return not any(map(is_up, socket.if_nameindex())) and not any(map(has_route, ROUTES))


def is_up(interface: tuple[int, str]) -> bool:
    _, name = interface
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh14x", name.encode(), 0))
    return name != "lo" and bool(struct.unpack("16sh14x", answer)[1] & IS_UP)


def has_route(destination: tuple[int, tuple[str, int]]) -> bool:
    family, address = destination
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect(address)
    except OSError as error:
        return error.errno not in UNREACHABLE
    return True


def compute_endlessly() -> None:
    """Use two processors until the sender, who watches the counters, removes the container."""
    os.fork()
    while True:
        pass


def main(arguments: list[str]) -> int:
    os.chdir(PLACE)
    bits = 0
    for number, argument in enumerate(arguments):
        name, _, limit = argument.partition("=")
        if name == "cpus":
            compute_endlessly()
        try:
            has_held = is_alone(0) if name == "network" else holds(TAKERS[name], int(limit))
        except OSError:
            continue
        bits |= has_held << number
        # Podman copies what the image has in this folder into the tmpfs: only remove files of this program.
        for file in os.listdir(PLACE):
            if file.startswith(("full-", "many-")):
                os.unlink(file)
    return HELD + bits


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
