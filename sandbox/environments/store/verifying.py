"""Verifying: is every file of an environment what it was when it was published?"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.environments.disk.stock import Entry, StoredFile, digests, kind_of, list_digest, read_list, walk
from sandbox.environments.store.manifest import Manifest
from sandbox.errors import EnvironmentTampered

_NAMED = 5


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What differs, by the names of files below the environment's folder."""

    key: str
    files: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing differs."""
        return not (self.changed or self.missing or self.extra)

    def raise_if_tampered(self) -> None:
        """Raises `EnvironmentTampered`, which names some of what differs."""
        if self.is_intact:
            return
        kinds = {"changed": self.changed, "missing": self.missing, "not published": self.extra}
        parts = [f"{kind}: {_some(names)}" for kind, names in kinds.items() if names]
        raise EnvironmentTampered(
            f"the environment {self.key[:12]} is not what was published: {'; '.join(parts)}",
            remedy=f"find out who could write to the store; after `env prune {self.key[:12]}` it is built again",
        )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name[:200]) for name in names[:_NAMED]) + more


def verify(key: str, folder: Path, list_file: Path, manifest: Manifest) -> VerifyReport:
    """Read every file again; a list that is not the manifest's counts as one more changed file."""
    listed = _read_list(list_file)
    found = {entry.path: entry for entry in walk(folder) if not stat.S_ISDIR(entry.status.st_mode)}
    same_kind = [path for path in listed.keys() & found.keys() if kind_of(found[path].status) == listed[path].kind]
    read = digests(folder, [path for path in same_kind if listed[path].kind != "link"])
    changed = {path for path in listed.keys() & found.keys() if not _is_same(folder, listed[path], found, read)}
    if list_digest(listed.values()) != manifest.files:
        changed.add(os.path.relpath(list_file, folder))
    return VerifyReport(
        key,
        len(listed),
        tuple(sorted(changed)),
        tuple(sorted(listed.keys() - found.keys())),
        tuple(sorted(found.keys() - listed.keys())),
    )


def _read_list(list_file: Path) -> dict[str, StoredFile]:
    try:
        return {file.path: file for file in read_list(list_file.read_text())}
    except (OSError, ValueError):
        return {}


def _is_same(folder: Path, file: StoredFile, found: Mapping[str, Entry], read: Mapping[str, tuple[str, int]]) -> bool:
    if file.kind == "link":
        if kind_of(found[file.path].status) != "link":
            return False
        return hashlib.sha256(os.fsencode(os.readlink(folder / file.path))).hexdigest() == file.sha256
    return read.get(file.path) == (file.sha256, file.size)
