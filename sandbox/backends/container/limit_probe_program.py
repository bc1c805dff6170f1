"""A program that goes beyond one limit after the other, and says by its exit code which of them held.

Never imported: `canaries` gives its text to a Python in a container, with `name=limit` arguments. The exit code is 64
and a bit for each of them that held, in the order in which they were given, so that no output has to be kept or read.
A limit holds when what it allows was granted, at least half of it, and what goes beyond was refused; asking ends at
four times the limit, so that a host where it does not hold comes to no harm. `alone` holds when nothing outside can
be reached; asking for a route sends nothing. Python 3.8, like everything that runs inside.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable

HELD = 64
TIMES = 4
CHUNK = 1 << 16
PLACE = "/work"
IS_UP, SIOCGIFFLAGS = 1, 0x8913
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def count_until_refused(ask: Callable[[int], object], limit: int) -> int | None:
    """How often it was granted; None where nobody refused."""
    for granted in range(TIMES * limit):
        try:
            ask(granted)
        except OSError:
            return granted
    return None


def holds(granted: int | None, limit: int) -> bool:
    return granted is not None and limit // 2 <= granted <= limit


def memory(limit: int) -> bool:
    """Returns only where it does not hold."""
    held = [b"x" * CHUNK for _ in range(TIMES * limit // CHUNK)]
    return not held


def processes(limit: int) -> bool:
    children: list[int] = []

    def ask(_: int) -> None:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)

    try:
        return holds(count_until_refused(ask, limit), limit)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def open_files(limit: int) -> bool:
    opened: list[int] = []
    try:
        return holds(count_until_refused(lambda _: opened.append(os.open("/dev/null", os.O_RDONLY)), limit), limit)
    finally:
        for number in opened:
            os.close(number)


def inodes(limit: int) -> bool:
    names: list[str] = []

    def ask(number: int) -> None:
        name = f"{PLACE}/{number}"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        names.append(name)

    try:
        return holds(count_until_refused(ask, limit), limit)
    finally:
        for name in names:
            os.unlink(name)


def disk(limit: int) -> bool:
    with open(PLACE + "/full", "wb", buffering=0) as file:
        granted = count_until_refused(lambda _: file.write(b"x" * CHUNK), limit // CHUNK)
    os.unlink(PLACE + "/full")
    return holds(granted, limit // CHUNK)


def alone(_: int) -> bool:
    return not any(map(is_up, socket.if_nameindex())) and not any(map(has_route, ROUTES))


ROUTES = ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9)))


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


def cpus(_: int) -> bool:
    """Never returns: whoever sent it watches, and ends it."""
    os.fork()
    while True:
        pass


CANARIES = {canary.__name__: canary for canary in (memory, processes, open_files, inodes, disk, alone, cpus)}


def main(arguments: list[str]) -> int:
    bits = 0
    for number, argument in enumerate(arguments):
        name, _, limit = argument.partition("=")
        try:
            bits |= bool(CANARIES[name](int(limit))) << number
        except OSError:
            continue
    return HELD + bits


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
