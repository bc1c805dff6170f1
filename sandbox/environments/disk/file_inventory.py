"""The content of a folder, file by file: the list that a package tree or an environment is known and checked by.

A list is text, one line per file, sorted by path: `<sha256> <size> <letter> <path>`, where the letter says whether it
is a plain file, a program (a file that may be executed) or a symbolic link (whose digest is that of its target's text).
A single SHA-256 over that text stands for the whole folder.

Folders that a box wrote are read here too, so nothing is reached by a path that a link could bend: every folder is
opened by name below the one that is already open, never following a link, and files are judged by their descriptor.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["file", "program", "link"]
Judge = Callable[[int, str], None]
"""Is shown the open descriptor of a file and its path before it is read; may refuse it, or change its modes."""

_LETTERS: Final[dict[Kind, str]] = {"file": "f", "program": "x", "link": "l"}
_KINDS: Final[dict[str, Kind]] = {letter: kind for kind, letter in _LETTERS.items()}
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening what became a pipe would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_AT_ONCE: Final = 1 << 20
_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it must be."""

    path: str
    """Relative to the folder it is listed for."""
    sha256: str
    size: int
    kind: Kind = "file"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder, of any kind."""

    path: str
    status: os.stat_result


def write_list(files: Iterable[StoredFile]) -> str:
    """The list as text."""
    ordered = sorted(files, key=lambda file: file.path)
    return "".join(f"{file.sha256} {file.size} {_LETTERS[file.kind]} {file.path}\n" for file in ordered)


def read_list(text: str) -> tuple[StoredFile, ...]:
    """The files that the text lists; raises `ValueError` when it is no such list."""
    return tuple(_read_line(line) for line in text.split("\n") if line)


def _read_line(line: str) -> StoredFile:
    sha256, size, letter, path = line.split(" ", 3)
    if letter not in _KINDS:
        raise ValueError(f"a file is listed as {letter!r}, which is no kind of file")
    return StoredFile(path, sha256, int(size), _KINDS[letter])


def list_digest(files: Iterable[StoredFile]) -> str:
    """Return the digest of the list of these files."""
    return hashlib.sha256(write_list(files).encode()).hexdigest()


def walk(folder: Path) -> Iterator[Entry]:
    """Yield all entries below `folder`, folders before what they hold; no link is followed."""
    descriptor = os.open(folder, _FOLDER)
    try:
        yield from _walk(descriptor, "")
    finally:
        os.close(descriptor)


def _walk(descriptor: int, prefix: str) -> Iterator[Entry]:
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    for name, status in found:
        yield Entry(prefix + name, status)
        if stat.S_ISDIR(status.st_mode):
            below = os.open(name, _FOLDER, dir_fd=descriptor)
            try:
                yield from _walk(below, f"{prefix}{name}/")
            finally:
                os.close(below)


def digests(folder: Path, paths: Iterable[str], *, judge: Judge | None = None) -> dict[str, tuple[str, int]]:
    """SHA-256 and size of each of these plain files, read by several threads at once."""
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        by_folder.setdefault(parent, []).append(name)
    root = os.open(folder, _FOLDER)
    try:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="sandbox-digest") as threads:
            parts = threads.map(lambda part: _digests_in(root, part[0], part[1], judge), by_folder.items())
            return {path: digest for part in parts for path, digest in part.items()}
    finally:
        os.close(root)


def _digests_in(root: int, parent: str, names: Sequence[str], judge: Judge | None) -> dict[str, tuple[str, int]]:
    descriptor = open_below(root, parent)
    prefix = f"{parent}/" if parent else ""
    try:
        return {prefix + name: _digest(descriptor, name, prefix, judge) for name in names}
    finally:
        os.close(descriptor)


def open_below(root: int, path: str) -> int:
    """Open the folder at `path` below the open folder `root`, following no link on the way."""
    descriptor = os.dup(root)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _digest(parent: int, name: str, prefix: str, judge: Judge | None) -> tuple[str, int]:
    with open(os.open(name, _FILE, dir_fd=parent), "rb", buffering=0) as file:
        if judge is not None:
            judge(file.fileno(), prefix + name)
        start = file.read(_READ_AT_ONCE)
        if len(start) < _READ_AT_ONCE:
            return hashlib.sha256(start).hexdigest(), len(start)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


def kind_of(status: os.stat_result) -> Kind | None:
    """Return the entry's line in a list; None for a folder and for kinds that no list holds."""
    if stat.S_ISLNK(status.st_mode):
        return "link"
    if not stat.S_ISREG(status.st_mode):
        return None
    return "program" if status.st_mode & 0o111 else "file"


@dataclass(frozen=True, slots=True)
class FileInventory:
    """All files of a folder, and the space that they take up."""

    files: tuple[StoredFile, ...]
    bytes_total: int
    bytes_own: int
    """The bytes that no other folder shares by a hard link."""


def take_inventory(folder: Path, *, known: Iterable[StoredFile] = ()) -> FileInventory:
    """All files below `folder`, reading only those that are not already known by their path and size.

    Only for folders that the engine itself made; raises `ValueError` where it finds what cannot be listed.
    """
    entries = list(walk(folder))
    by_path = {file.path: file for file in known}
    found = [entry for entry in entries if not stat.S_ISDIR(entry.status.st_mode)]
    unread = [entry for entry in found if not _is_known(entry, by_path)]
    read = digests(folder, [entry.path for entry in unread if kind_of(entry.status) in ("file", "program")])
    fresh = {entry.path: _stored(folder, entry, read) for entry in unread}
    files = [fresh.get(entry.path) or by_path[entry.path] for entry in found]
    shared = [entry.status for entry in found if entry.status.st_nlink > 1]
    total = bytes_on_disk(entry.status for entry in entries)
    return FileInventory(tuple(sorted(files, key=lambda file: file.path)), total, total - bytes_on_disk(shared))


def _is_known(entry: Entry, known: Mapping[str, StoredFile]) -> bool:
    file = known.get(entry.path)
    return file is not None and file.size == entry.status.st_size and file.kind == kind_of(entry.status)


def _stored(folder: Path, entry: Entry, read: Mapping[str, tuple[str, int]]) -> StoredFile:
    kind = kind_of(entry.status)
    if kind is None or "\n" in entry.path:
        raise ValueError(f"{entry.path!r} cannot be part of an environment")
    if kind == "link":
        target = os.fsencode(os.readlink(folder / entry.path))
        return StoredFile(entry.path, hashlib.sha256(target).hexdigest(), len(target), kind)
    return StoredFile(entry.path, *read[entry.path], kind)


def bytes_on_disk(statuses: Iterable[os.stat_result]) -> int:
    """Return the allocated bytes of these files."""
    return sum(status.st_blocks * 512 for status in statuses)
