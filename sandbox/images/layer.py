"""An environment as a layer: its files as a tar archive, which the engine makes while it sends it.

The layer keeps the content of a file, whether it is executable, and the second of its change; it keeps neither the
owner on this machine nor any attribute that gives rights. So the layer depends on the environment alone: equal
environments make equal layers. The memory holds only a piece of one file at a time.

While it reads the files, the archive builds their list again, in the form of the store's lists (`<sha256> <size>
<letter> <path>`, sorted), and compares its digest with the environment's manifest. A changed, missing or new file
(after a prune, or a manual change of the store) ends the archive with an error, and an archive without its end is no
layer.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandbox.errors import EnvironmentTampered, EnvironmentUnavailable

LAYER_FORMAT: Final = 1
"""Increase this number when the same environment makes another layer."""
_PIECE: Final = 1 << 20
_BLOCK: Final = tarfile.BLOCKSIZE
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_ONLY: Final = 0o444
_PASSABLE: Final = 0o555


class Layer:
    """The archive of all files below `folder`, at `place`, such as `environment`; iterate over it once."""

    def __init__(self, folder: Path, *, place: str, files: str) -> None:
        self._folder = folder
        self._place = place
        self._files = files
        self._listed: dict[str, str] = {}

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces; raise `EnvironmentUnavailable` or `EnvironmentTampered` instead of the last one."""
        try:
            yield from self._folder_or_link(self._folder, "")
            for parent, folders, files in os.walk(self._folder, onerror=_fail):
                below = os.path.relpath(parent, self._folder)
                folders.sort()
                for name in sorted([*folders, *files]):
                    yield from self._member(Path(parent, name), name if below == "." else f"{below}/{name}")
        except OSError as error:
            raise EnvironmentUnavailable(
                f"the environment in {self._folder} went away while it was read: {error.strerror or error}",
                remedy="build it again with `sandbox env build`",
            ) from error
        self._see_that_it_is_whole()
        yield bytes(2 * _BLOCK)

    def _member(self, path: Path, name: str) -> Iterator[bytes]:
        if stat.S_ISREG(path.lstat().st_mode):
            yield from self._file(path, name)
        else:
            yield from self._folder_or_link(path, name)

    def _folder_or_link(self, path: Path, name: str) -> Iterator[bytes]:
        status = path.lstat()
        entry = self._entry(name, status)
        if stat.S_ISDIR(status.st_mode):
            entry.type, entry.mode = tarfile.DIRTYPE, _PASSABLE
        elif stat.S_ISLNK(status.st_mode):
            entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, os.readlink(path)
            target = os.fsencode(entry.linkname)
            self._listed[name] = f"{hashlib.sha256(target).hexdigest()} {len(target)} l"
        else:
            raise OSError(f"{path} is no file")
        yield _header(entry)

    def _file(self, path: Path, name: str) -> Iterator[bytes]:
        with open(os.open(path, _FILE), "rb", buffering=0) as file:
            status, digest = os.fstat(file.fileno()), hashlib.sha256()
            is_program = bool(status.st_mode & 0o111)
            entry = self._entry(name, status)
            entry.size, entry.mode = status.st_size, _PASSABLE if is_program else _READ_ONLY
            yield _header(entry)
            left = entry.size
            while left and (piece := file.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
                yield piece
            if left:
                raise OSError(f"{path} changed its size")
        yield bytes(-entry.size % _BLOCK)
        self._listed[name] = f"{digest.hexdigest()} {entry.size} {'x' if is_program else 'f'}"

    def _entry(self, name: str, status: os.stat_result) -> tarfile.TarInfo:
        entry = tarfile.TarInfo(f"{self._place}/{name}" if name else self._place)
        entry.mtime = int(status.st_mtime)
        return entry

    def _see_that_it_is_whole(self) -> None:
        listing = "".join(f"{listed} {name}\n" for name, listed in sorted(self._listed.items()))
        if hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest() != self._files:
            raise EnvironmentTampered(
                f"the files in {self._folder} are not those that were built",
                remedy="`sandbox env verify` tells which differ; prune that environment and build it again",
            )


def _fail(error: OSError) -> None:
    raise error


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
