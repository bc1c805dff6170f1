"""Verifying: is every file of an environment, or of a package tree, what it was when it was published?

Modes and folders count, too. A file that others may write to can be changed after it was read, and an empty folder
among modules can be imported.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.environments.disk.file_inventory import Entry, StoredFile, digests, kind_of, list_digest, read_list, walk
from sandbox.environments.disk.paths import READ_ONLY
from sandbox.errors import EnvironmentTampered

_NAMED: Final = 5
_MODES: Final = {"file": READ_ONLY & 0o444, "program": READ_ONLY}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The changed files and folders, by their paths below the environment's folder."""

    key: str
    files: int
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    """The files and folders with other modes than when they were published."""
    is_whole: bool = True
    """Whether it is an environment at all: one that is not is never used, and is built again when it is wanted."""

    @property
    def is_intact(self) -> bool:
        """Whether nothing differs."""
        return self.is_whole and not (self.changed or self.missing or self.extra or self.modes)

    def raise_if_tampered(self) -> None:
        """Raises `EnvironmentTampered`, which names some of what differs."""
        if self.is_intact:
            return
        kinds = {"changed": self.changed, "missing": self.missing, "not published": self.extra, "modes": self.modes}
        parts = [f"{kind}: {_some(names)}" for kind, names in kinds.items() if names] or ["it is not whole"]
        raise EnvironmentTampered(
            f"the environment {self.key[:12]} is not what was published: {'; '.join(parts)}",
            remedy=f"find out who could write to the store; after `env prune {self.key[:12]}` it is built again",
        )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name[:200]) for name in names[:_NAMED]) + more


def verify(key: str, folder: Path, list_file: Path, *, digest: str) -> VerifyReport:
    """Read every file again; a list that has not this digest any more counts as one more changed file."""
    listed = _read_list(list_file)
    entries = {entry.path: entry for entry in walk(folder)}
    found = {path: entry for path, entry in entries.items() if not stat.S_ISDIR(entry.status.st_mode)}
    same_kind = [path for path in listed.keys() & found.keys() if kind_of(found[path].status) == listed[path].kind]
    read = digests(folder, [path for path in same_kind if listed[path].kind != "link"])
    changed = {path for path in listed.keys() & found.keys() if not _is_same(folder, listed[path], found, read)}
    if list_digest(listed.values()) != digest:
        changed.add(os.path.relpath(list_file, folder))
    expected = listed.keys() | _folders_of(listed)
    modes = {path for path in expected & entries.keys() if not _has_its_mode(entries[path].status)} - changed
    if not _has_its_mode(os.lstat(folder)):
        modes.add(".")
    return VerifyReport(
        key,
        len(listed),
        changed=tuple(sorted(changed)),
        missing=tuple(sorted(listed.keys() - found.keys())),
        extra=tuple(sorted(entries.keys() - expected)),
        modes=tuple(sorted(modes)),
    )


def _read_list(list_file: Path) -> dict[str, StoredFile]:
    try:
        return {file.path: file for file in read_list(list_file.read_text())}
    except (OSError, ValueError):
        return {}


def _folders_of(paths: Iterable[str]) -> set[str]:
    """All folders on the way to these; nothing else is published."""
    folders: set[str] = set()
    for path in paths:
        while path := path.rpartition("/")[0]:
            folders.add(path)
    return folders


def _has_its_mode(status: os.stat_result) -> bool:
    """Whether it has the mode that everything of its kind is published with."""
    kind = kind_of(status)
    if kind == "link":
        return True
    return stat.S_IMODE(status.st_mode) == _MODES.get(kind or "", READ_ONLY)


def _is_same(folder: Path, file: StoredFile, found: Mapping[str, Entry], read: Mapping[str, tuple[str, int]]) -> bool:
    if file.kind == "link":
        if kind_of(found[file.path].status) != "link":
            return False
        return hashlib.sha256(os.fsencode(os.readlink(folder / file.path))).hexdigest() == file.sha256
    return read.get(file.path) == (file.sha256, file.size)
