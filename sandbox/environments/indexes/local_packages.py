"""Packages that lie in folders of this machine: `file:` indexes, and folders of wheels without any page.

A page on this machine may link to any file of the machine that is named as a distribution, also outside of its index,
where mirrors keep them; the page itself may not be a link to elsewhere. What the disk knows of a file and its page does
not tell (size, age, digest) is added.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from sandbox.environments.indexes.answers import Absent, Fault, Reply
from sandbox.environments.indexes.pages import MOST_PAGE_BYTES, ListedFile, is_file_name, parse_html
from sandbox.environments.indexes.settings import local_path

PIECE_BYTES: Final = 256 << 10
_TO_BE_HASHED_BYTES: Final = 32 << 20
_PARTIAL: Final = 206
_UNSATISFIABLE: Final = 416


def local_page(root: Path, name: str) -> tuple[ListedFile, ...]:
    """The files of a package that an index on this machine links to."""
    if not root.is_dir():
        raise Fault("the folder does not exist", reach="index", remedy="make it, or correct the index's address")
    page = (root / name / "index.html").resolve()
    if not page.is_relative_to(root.resolve()):
        raise Fault("its page is a link that leads out of the index")
    try:
        text = _read_text(page)
    except (FileNotFoundError, NotADirectoryError):
        raise Absent from None
    except OSError as problem:
        raise Fault(f"its page cannot be read: {problem.strerror}") from None
    files = parse_html(text, address=page.as_uri(), strict=False)
    return tuple(_with_what_the_disk_knows(file) for file in files)


def local_links(path: Path) -> tuple[ListedFile, ...]:
    """The files in a folder, or linked to by a page. A folder that is not there holds none, as with pip."""
    try:
        if path.is_dir():
            paths = sorted(entry for entry in path.iterdir() if is_file_name(entry.name) and entry.is_file())
            files = tuple(ListedFile(entry.name, entry.absolute().as_uri()) for entry in paths)
        else:
            files = parse_html(_read_text(path), address=path.absolute().as_uri(), strict=False)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as problem:
        raise Fault(f"it cannot be read: {problem.strerror}") from None
    return tuple(_with_what_the_disk_knows(file) for file in files)


def _read_text(path: Path) -> str:
    with path.open("rb") as page:
        body = page.read(MOST_PAGE_BYTES + 1)
    if len(body) > MOST_PAGE_BYTES:
        raise Fault(f"its page has more than {MOST_PAGE_BYTES} bytes")
    return body.decode(errors="replace")


def _with_what_the_disk_knows(file: ListedFile) -> ListedFile:
    """A local file has a size, has been here since it was last changed, and its digest can be told.

    Digests of large files are left to whoever picks one: a folder may hold many that nobody asks for.
    """
    path = local_path(file.url)
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return file
    if path is None or status is None:
        return file
    changed = datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = replace(file, size=status.st_size, upload_time=file.upload_time or changed)
    if file.hashes or status.st_size > _TO_BE_HASHED_BYTES:
        return found
    return replace(found, hashes={"sha256": digest_of(path)})


def digest_of(path: Path) -> str:
    """The SHA-256 of a local file; remembered for as long as the file does not change."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=4096)
def _digest(path: Path, *_version: int) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def open_local(path: Path, *, part: str | None = None) -> Iterator[Reply]:
    """The file, or the part of it that a `Range` header asks for."""
    try:
        file = path.open("rb")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise Absent from None
    except OSError as problem:
        raise Fault(f"the file cannot be read: {problem.strerror}") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        first, last = _span(part, size)
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        if first > last and part:
            yield Reply(
                _UNSATISFIABLE, {**headers, "Content-Range": f"bytes */{size}", "Content-Length": "0"}, iter(())
            )
            return
        headers["Content-Length"] = str(last - first + 1)
        if part:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        file.seek(first)
        yield Reply(_PARTIAL if part else 200, headers, _file_pieces(file.read, last - first + 1))


def _span(part: str | None, size: int) -> tuple[int, int]:
    """The first and the last byte that `bytes=first-last`, `bytes=first-` or `bytes=-count` names."""
    if part is None:
        return 0, size - 1
    first, _, last = part.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1


def _file_pieces(read: Callable[[int], bytes], left: int) -> Iterator[bytes]:
    while left > 0 and (piece := read(min(left, PIECE_BYTES))):
        left -= len(piece)
        yield piece
