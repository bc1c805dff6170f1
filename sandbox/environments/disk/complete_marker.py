"""Sealing: a folder is whole when its marker says so, and the marker says so only of the document it was written for.

    <folder>/
    ├── <document>.json      what the folder holds
    ├── files                the list of its files, see `stock`
    └── complete             the SHA-256 of the document, and the boot during which it was written

*Kill -9* loses nothing that was written: the kernel has it. Sealed folders get their place by rename, so they are there
with all that is in them, or not at all, and no flush to disk is needed for that.

*A power failure* loses what the kernel had not written back, in any order: a folder may be there and its files empty.
Flushing thousands of files at every build would cost more than the build. Instead a seal of an earlier boot is not
believed until every file was found with its size (file systems do not grow a file before its blocks are written), once,
and the seal is then renewed, where it can be. The document and the list are small and checked by digest anyway.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from sandbox.environments.disk.file_inventory import kind_of, read_list

FILES: Final = "files"
MARKER: Final = "complete"
UNFINISHED: Final = ".new-"
"""How a file begins that is still being written."""


@cache
def this_boot() -> str:
    """Return the identity of this boot of the machine, which all its containers share."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def write_whole(path: Path, data: bytes, *, mode: int = 0o444) -> None:
    """Write a file so that it is there with all its bytes or, killed at any moment, as it was before."""
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def seal(folder: Path, *, document: str, data: bytes, files: str) -> None:
    """Write the document, the list of files and, last, the marker."""
    write_whole(folder / FILES, files.encode())
    write_whole(folder / document, data)
    _mark(folder, data)


def _mark(folder: Path, data: bytes) -> None:
    write_whole(folder / MARKER, f"{hashlib.sha256(data).hexdigest()} {this_boot()}\n".encode())


def sealed_document(folder: Path, *, document: str, content: str) -> bytes | None:
    """The document of a folder that is whole; None of any other. `content` is the subfolder that the list is of."""
    try:
        data = (folder / document).read_bytes()
        digest, _, boot = (folder / MARKER).read_text().strip().partition(" ")
        if digest != hashlib.sha256(data).hexdigest():
            return None
        if boot != this_boot():
            if not _has_all_sizes(folder, content):
                return None
            with suppress(OSError):  # on a disk that is full or read-only it is looked at anew each time
                _mark(folder, data)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None
    return data


def _has_all_sizes(folder: Path, content: str) -> bool:
    """Whether the files that are listed are there, as long as they should be."""
    root = folder / content
    try:
        listed = read_list((folder / FILES).read_text())
        return all(_has_size(root / file.path, file.size, file.kind) for file in listed)
    except (OSError, ValueError):
        return False


def _has_size(path: Path, size: int, kind: str) -> bool:
    status = path.lstat()
    return kind_of(status) == kind and status.st_size == size and stat.S_IFMT(status.st_mode) != stat.S_IFDIR
