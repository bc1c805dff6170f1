"""Adopting: what a box left behind is verified, and only then becomes a package tree.

The box read strangers' bytes, so its folder may hold anything a file system can. Nothing in it is believed:

1. *Survey.* Only plain files and folders, with plain names, of sizes and numbers that are bearable. No link of any kind
   (a hard link would be a file that someone else can still write to), no device, no pipe, no socket, nothing that
   raises privileges.
2. *Take over.* Every file is opened without following links, becomes the engine's own and read-only, and is only then
   read, through the same descriptor: what was hashed is what is kept.
3. *Compare.* Exactly one `.dist-info`, of the package and version that are locked; every file of its RECORD is there
   with its digest; every other file is bytecode with its source next to it. Given the wheel, RECORD itself is held
   against the wheel's own, which the lock's digest covers.
4. *Name.* RECORD is written anew, with scripts and data where an environment has them.

A trust remains: the bytecode is the box's word. The same box compiled it, from sources that are verified.

The box must be gone. A process of it that still held a file open for writing could change it after the fact.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from sandbox.environments.builds.record import (
    MAX_BYTES,
    PASSING,
    UNLISTED,
    Listed,
    as_installed,
    check_against_wheel,
    files_outside,
    read_record,
    wheel_contents,
    without_passing_files,
)
from sandbox.environments.disk.file_inventory import Entry, StoredFile, bytes_on_disk, digests, list_digest, walk
from sandbox.environments.disk.paths import READ_ONLY, is_full
from sandbox.environments.lock import LockedPackage
from sandbox.environments.store.tree_report import TreeFacts, TreeReport
from sandbox.errors import BuildFailed, StoreUnwritable
from sandbox.policy import format_bytes

_REMEDY: Final = "build it again; if that does not help, pin another version of the package"
_RAISES_PRIVILEGES: Final = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_INSTALLERS_LOCK: Final = ".lock"
_LISTS_LOCK: Final = re.compile(r'^(\.lock|"\.lock"),', re.M)
# Bytes that are no UTF-8 came as lone surrogates.
_NOT_PLAIN: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\\\ud800-\udfff]")
_IMPORTABLE: Final = re.compile(r"^[^\W\d]\w*$")
_BYTECODE: Final = re.compile(r"(?P<module>.+?)\.[^.]+(\.opt-\w+)?\.pyc")
_LIBRARY: Final = re.compile(r"\.(so|so\.[0-9.]+)$")


@dataclass(frozen=True, slots=True)
class TreeCaps:
    """How much one package may be."""

    files: int = 100_000
    bytes: int = 16 << 30
    set_by: str = ""
    """Where the number of bytes comes from, for messages."""
    depth: int = 48
    path_length: int = 1024


def adopt_tree(
    folder: Path, *, wheel: LockedPackage, archive: Path | None = None, caps: TreeCaps | None = None
) -> TreeReport:
    """Verify what is in `folder` and make it the engine's own; `BuildFailed` says what cannot be accepted.

    `archive` is the wheel itself, its SHA-256 already checked. The folder's own mode stays writable until it has been
    published, because renaming a folder takes the right to write to it.
    """
    who = f"{wheel.name} {wheel.version}"
    try:
        entries = _survey(folder, who=who, caps=caps or TreeCaps())
        dist_info = _dist_info(entries, wheel, who=who)
        _drop_passing_files(folder, entries, dist_info, who=who)
        files = _take_over(folder, entries, who=who)
        claimed = read_record((folder / dist_info / "RECORD").read_text("utf-8"), who=who)
        _compare(folder, files, claimed, dist_info, who=who)
        contents = wheel_contents(archive, who=who) if archive is not None else None
        if contents is not None:
            check_against_wheel(claimed, contents, dist_info=dist_info, who=who)
        outside = files_outside(claimed, contents) if contents is not None else frozenset[str]()
        _name_places(folder, f"{dist_info}/RECORD", files, outside)
        _close_folders(folder, entries)
    except OSError as error:
        if is_full(error):
            raise StoreUnwritable(f"there is no room left for {who}", remedy="make room in the store") from error
        raise BuildFailed(f"what was unpacked of {who} cannot be read: {error}", remedy=_REMEDY) from error
    return _report(folder, wheel, entries, files, outside)


def _survey(folder: Path, *, who: str, caps: TreeCaps) -> dict[str, Entry]:
    """Return all entries by path; raise for anything but plain files and folders."""
    entries: dict[str, Entry] = {}
    size = 0
    for entry in walk(folder):
        if problem := _problem(entry, caps):
            raise BuildFailed(f"{who} left {entry.path[:200]!r}, {problem}", remedy=_REMEDY)
        size += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
        entries[entry.path] = entry
        if len(entries) > caps.files or size > caps.bytes:
            most = f"{caps.files} files of together {format_bytes(caps.bytes)}{caps.set_by}"
            raise BuildFailed(f"{who} is more than {most}", remedy="require a smaller package")
    return entries


def _problem(entry: Entry, caps: TreeCaps) -> str | None:
    """Why it cannot be part of a package."""
    mode = entry.status.st_mode
    if len(entry.path) > caps.path_length or entry.path.count("/") >= caps.depth:
        return "which is too deep"
    if _NOT_PLAIN.search(entry.path):
        return "whose name is not plain text"
    if stat.S_ISDIR(mode):
        return None
    if not stat.S_ISREG(mode):
        return f"which is {_what(mode)}"
    if entry.status.st_nlink != 1:
        return "which is also linked from elsewhere"
    return "which raises privileges" if mode & _RAISES_PRIVILEGES else None


def _what(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _dist_info(entries: Iterable[str], wheel: LockedPackage, *, who: str) -> str:
    """The name of its one `.dist-info`."""
    found = [path for path in entries if "/" not in path and path.endswith(".dist-info")]
    if len(found) != 1 or not _is_of(found[0], wheel):
        named = ", ".join(sorted(found))[:300] or "none"
        raise BuildFailed(f"{who} was to be unpacked, and what came has these .dist-info: {named}", remedy=_REMEDY)
    return found[0]


def _is_of(dist_info: str, wheel: LockedPackage) -> bool:
    name, _, version = dist_info.removesuffix(".dist-info").rpartition("-")
    try:
        return canonicalize_name(name) == wheel.name and Version(version) == Version(wheel.version)
    except InvalidVersion:
        return False


def _drop_passing_files(folder: Path, entries: dict[str, Entry], dist_info: str, *, who: str) -> None:
    """Remove what tells of the installation only, and is not the package's own; RECORD is written anew without it."""
    record = folder / dist_info / "RECORD"
    listed = entries.get(f"{dist_info}/RECORD")
    if listed is None or not stat.S_ISREG(listed.status.st_mode) or listed.status.st_size > MAX_BYTES:
        raise BuildFailed(f"{who} has no RECORD of its files, or an endless one", remedy=_REMEDY)
    try:
        stated = record.read_bytes().decode()
        text = without_passing_files(stated, dist_info)
    except (UnicodeDecodeError, csv.Error):
        raise BuildFailed(f"the RECORD of {who} is not one", remedy=_REMEDY) from None
    installers = [] if _LISTS_LOCK.search(stated) else [_INSTALLERS_LOCK]
    for path in [*installers, *(f"{dist_info}/{name}" for name in sorted(PASSING))]:
        entry = entries.get(path)
        if entry is not None and stat.S_ISREG(entry.status.st_mode):
            (folder / path).unlink()
            del entries[path]
    record.unlink()
    record.write_bytes(text.encode())
    entries[listed.path] = Entry(listed.path, record.lstat())


def _take_over(folder: Path, entries: Mapping[str, Entry], *, who: str) -> dict[str, StoredFile]:
    """Every file becomes ours and read-only, and is then read."""
    plain = [path for path, entry in entries.items() if stat.S_ISREG(entry.status.st_mode)]
    programs = {path for path in plain if _is_program(entries[path])}

    def judge(descriptor: int, path: str) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or _has_rights_of_its_own(descriptor):
            raise BuildFailed(f"{who} left {path!r}, which is not a plain file", remedy=_REMEDY)
        if status.st_uid != os.geteuid() or status.st_gid != os.getegid():
            os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o555 if path in programs else 0o444)

    read = digests(folder, plain, judge=judge)
    return {path: StoredFile(path, *read[path], "program" if path in programs else "file") for path in plain}


def _is_program(entry: Entry) -> bool:
    """Whether it may be executed, as its wheel says wherever it is, or is loaded like a program."""
    return bool(entry.status.st_mode & 0o111) or bool(_LIBRARY.search(entry.path.rpartition("/")[2]))


def _has_rights_of_its_own(descriptor: int) -> bool:
    """Whether capabilities or an access list are attached to it."""
    try:
        return any(name.startswith(("security.capability", "system.posix_acl")) for name in os.listxattr(descriptor))
    except OSError:
        return False  # the file system has none


def _compare(
    folder: Path, files: Mapping[str, StoredFile], claimed: Mapping[str, Listed], dist_info: str, *, who: str
) -> None:
    """Every listed file is there and right, every other one is bytecode."""
    unlisted = {f"{dist_info}/{name}" for name in UNLISTED}
    for path, listed in claimed.items():
        may_be_open = path in unlisted or _has_source(path, files)
        if problem := _difference(folder, files.get(path), listed, may_be_open=may_be_open):
            raise BuildFailed(f"{path[:200]!r} of {who} {problem}", remedy=_REMEDY)
    for path in files:
        if path not in claimed and path not in unlisted and not _has_source(path, files):
            raise BuildFailed(f"{who} left {path!r}, which its RECORD does not list", remedy=_REMEDY)


def _difference(folder: Path, file: StoredFile | None, listed: Listed, *, may_be_open: bool) -> str | None:
    if file is None:
        return "is listed in its RECORD and is not there"
    if may_be_open:
        return None
    if listed.digest is None:
        return "is listed in its RECORD without a digest"
    if _digest(folder, file, listed.algorithm) != listed.digest or listed.size not in (None, file.size):
        return "is not what its RECORD says"
    return None


def _digest(folder: Path, file: StoredFile, algorithm: str) -> str:
    """Return the digest of a file that is the engine's own by now."""
    if algorithm == "sha256":
        return file.sha256
    with (folder / file.path).open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def _has_source(path: str, files: Mapping[str, StoredFile]) -> bool:
    """Whether it is bytecode, where the interpreter looks for it, of a source that is there."""
    parent, _, name = path.rpartition("/")
    above, _, cache = parent.rpartition("/")
    compiled = _BYTECODE.fullmatch(name)
    if cache != "__pycache__" or compiled is None:
        return False
    source = f"{compiled['module']}.py"
    return (f"{above}/{source}" if above else source) in files


def _name_places(folder: Path, record: str, files: dict[str, StoredFile], outside: frozenset[str]) -> None:
    """Have RECORD name scripts and data where an environment has them."""
    if outside:
        stated = (folder / record).read_bytes().decode()
        text = as_installed(stated, outside).encode()
        (folder / record).unlink()
        (folder / record).write_bytes(text)
        (folder / record).chmod(READ_ONLY & 0o444)
        files[record] = StoredFile(record, hashlib.sha256(text).hexdigest(), len(text))


def _close_folders(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Folders below become ours and read-only; the folder itself stays open to the engine alone."""
    below = [path for path, entry in entries.items() if stat.S_ISDIR(entry.status.st_mode)]
    for path, mode in [*((folder / path, READ_ONLY) for path in sorted(below, reverse=True)), (folder, 0o755)]:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def _report(
    folder: Path,
    wheel: LockedPackage,
    entries: Mapping[str, Entry],
    files: Mapping[str, StoredFile],
    outside: frozenset[str],
) -> TreeReport:
    modules = {name for path in files if path not in outside and (name := _module(path))}
    facts = TreeFacts(
        name=wheel.name,
        version=wheel.version,
        wheel=wheel.sha256,
        modules=tuple(sorted(modules)),
        has_path_files=any(path.endswith(".pth") and "/" not in path for path in files),
        prefix_files=tuple(sorted(outside & files.keys())),
        bytes_on_disk=bytes_on_disk(entry.status for entry in entries.values()),
        files=list_digest(files.values()),
    )
    return TreeReport(folder, facts, tuple(sorted(files.values(), key=lambda file: file.path)))


def _module(path: str) -> str | None:
    """The name that the file can be imported by, or the package it is part of."""
    top, _, below = path.partition("/")
    name = path.rpartition("/")[2]
    if not name.endswith(".py") and not _LIBRARY.search(name):
        return None
    module = top if below else name.partition(".")[0]
    return module if _IMPORTABLE.match(module) else None
