"""The files a call is given: measured before it starts, and read in pieces while they are sent to it.

A host path is the caller's own word, and is opened as the engine's user. It must lead to a regular file, also by way of
links, and only its content goes into a box. What is sent is as much as was measured: a file that changed in between
ends the call, because neither the tool nor the caller would know what the tool has seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sandbox.errors import SpecError
from sandbox.threads import Threads

_PIECE: Final = 1 << 20
_OPENED: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class GivenFile:
    """One file: where the tool finds it, and what it holds."""

    path: str
    size: int
    content: bytes | Path
    identity: tuple[int, ...] = ()
    """What is known of a file of the host, to tell whether it is still the same."""

    async def pieces(self, threads: Threads) -> AsyncIterator[bytes]:
        """All of it; raises `SpecError` when it is not what was measured any more."""
        if isinstance(self.content, bytes):
            for start in range(0, self.size, _PIECE):
                yield self.content[start : start + _PIECE]
            return
        descriptor = await threads.do(partial(_open, self.content))
        try:
            left = self.size
            while left:
                data = await threads.do(partial(_read, self.content, descriptor, min(left, _PIECE)))
                left -= len(data)
                if not (left and data):  # the tool is not called before it has the last piece
                    await threads.do(partial(_refuse_changed, self.content, descriptor, self.identity, left))
                yield data
        finally:
            os.close(descriptor)


def read_files(files: Mapping[str, bytes | Path]) -> tuple[GivenFile, ...]:
    """All of them, measured; raises `SpecError` for what cannot be given."""
    return tuple(_measured(path, content) for path, content in files.items())


def _measured(path: str, content: bytes | Path) -> GivenFile:
    if isinstance(content, bytes):
        return GivenFile(path, len(content), content)
    descriptor = _open(content)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SpecError(f"files: {content} is not a regular file")
        if not found.st_size and _read(content, descriptor, 1):
            raise _size_untold(content, "more")
    finally:
        os.close(descriptor)
    return GivenFile(path, found.st_size, content, _identity(found))


def _open(path: Path) -> int:
    try:
        return os.open(path, _OPENED)
    except OSError as error:
        raise _unreadable(path, error) from None


def _read(path: Path, descriptor: int, size: int) -> bytes:
    try:
        return os.read(descriptor, size)
    except OSError as error:
        raise _unreadable(path, error) from None


def _refuse_changed(path: Path, descriptor: int, identity: tuple[int, ...], left: int) -> None:
    more = not left and _read(path, descriptor, 1)
    if _identity(os.fstat(descriptor)) != identity:
        raise SpecError(f"{path} changed while it was sent to the call")
    if left or more:
        raise _size_untold(path, "more" if more else "less")


def _unreadable(path: Path, error: OSError) -> SpecError:
    return SpecError(f"files: {path} cannot be read: {error.strerror}")


def _size_untold(path: Path, holds: str) -> SpecError:
    return SpecError(
        f"files: {path} holds {holds} than its size says, as what the kernel makes up does",
        remedy="hand over a copy, or its content",
    )


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
