"""A tool with one function for each limit: it asks for four times what it may have, and returns if it got it.

Never imported: `sandbox doctor` runs this file in a box, to see each limit bite. It asks for no more than four times a
small limit, so that a host where one does not bite comes to no harm.
"""

from __future__ import annotations

import os
import time

TIMES = 4
CHUNK = 1 << 16


def wall(limit: float) -> None:
    """Take too long."""
    time.sleep(TIMES * limit)


def cpu(limit: float) -> None:
    """Compute for too long."""
    while time.process_time() < TIMES * limit:
        pass


def memory(limit: int) -> None:
    """Fill memory page by page."""
    held: list[bytes] = []
    while len(held) * CHUNK < TIMES * limit:
        held.append(b"x" * CHUNK)


def processes(limit: int) -> None:
    """Have too many processes; they end with their parent, or by themselves."""
    for _ in range(TIMES * limit):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)


def open_files(limit: int) -> None:
    """Open too many files."""
    for _ in range(TIMES * limit):
        os.open(os.devnull, os.O_RDONLY)


def file_size(limit: int) -> None:
    """Write one file too large."""
    with open("large", "wb", buffering=0) as file:
        for _ in range(TIMES * limit // CHUNK):
            file.write(b"x" * CHUNK)


def disk(limit: int) -> None:
    """Fill the disk with files that are small enough."""
    megabyte = b"x" * (1 << 20)
    for number in range(TIMES * limit // len(megabyte)):
        with open(f"full-{number}", "wb", buffering=0) as file:
            file.write(megabyte)


def inodes(limit: int) -> None:
    """Make too many files."""
    for number in range(TIMES * limit):
        os.close(os.open(f"many-{number}", os.O_CREAT | os.O_WRONLY))


def output(limit: int) -> None:
    """Print too much."""
    for _ in range(TIMES * limit // CHUNK):
        print("x" * (CHUNK - 1))


def value(limit: int) -> str:
    """Return too much."""
    return "x" * (TIMES * limit)
