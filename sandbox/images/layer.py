"""An environment as a layer: its files as a tar archive, made while it is sent.

Of a file its content, whether it is executed, and the second of its change are kept; whose it is on this machine is
not, nor any attribute that gives rights. So what comes out depends on the environment alone: equal environments make
equal layers. Nothing is held in memory but a piece of one file.

A file that is not what it was a moment ago (a prune, a hand in the store) ends the archive with an error: half a layer
is never a layer, since the archive's end is missing.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandbox.errors import EnvironmentUnavailable

LAYER_FORMAT: Final = 1
"""Counted up when the same environment makes another layer."""
_PIECE: Final = 1 << 20
_BLOCK: Final = tarfile.BLOCKSIZE
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_ONLY: Final = 0o444
_PASSABLE: Final = 0o555


def layer(folder: Path, *, place: str) -> Iterator[bytes]:
    """The archive of all that is below `folder`, which it has at `place`, such as `environment`."""
    try:
        yield from _member(folder, place)
        for parent, folders, files in os.walk(folder, onerror=_fail):
            below = os.path.relpath(parent, folder)
            prefix = place if below == "." else f"{place}/{below}"
            folders.sort()
            for name in sorted([*folders, *files]):
                yield from _member(Path(parent, name), f"{prefix}/{name}")
    except OSError as error:
        raise EnvironmentUnavailable(
            f"the environment in {folder} went away, or changed, while it was read: {error.strerror or error}",
            remedy="build it again with `sandbox env build`",
        ) from error
    yield bytes(2 * _BLOCK)


def _fail(error: OSError) -> None:
    raise error


def _member(path: Path, name: str) -> Iterator[bytes]:
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        yield from _file(path, name)
    else:
        yield _folder_or_link(path, name, status)


def _folder_or_link(path: Path, name: str, status: os.stat_result) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.mtime = int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, _PASSABLE
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, os.readlink(path)
    else:
        raise OSError(f"{path} is no file")
    return _header(entry)


def _file(path: Path, name: str) -> Iterator[bytes]:
    with open(os.open(path, _FILE), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no file")
        entry = tarfile.TarInfo(name)
        entry.mtime, entry.size = int(status.st_mtime), status.st_size
        entry.mode = _PASSABLE if status.st_mode & 0o111 else _READ_ONLY
        yield _header(entry)
        left = entry.size
        while left and (piece := file.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece
        if left or file.read(1):
            raise OSError(f"{path} changed its size")
        yield bytes(-entry.size % _BLOCK)


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
