"""Linking: the files of a package tree appear in an environment without being there twice.

A hard link is one more name of the same read-only file, so ten environments with one package cost the disk of one.
Where the file system allows no more of them, or none, the file is copied. Two packages that bring different files of
one name are refused: whichever came second would silently win, and one of them would be broken.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sandbox.environments.places import writing
from sandbox.environments.stock import StoredFile
from sandbox.environments.tree_report import TreeReport
from sandbox.errors import BuildFailed

_CANNOT_LINK: Final = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Linked:
    """What a tree has put into an environment: paths are relative to the environment's folder."""

    files: tuple[StoredFile, ...]
    copied_bytes: int
    """What of it is a copy, and so costs its size again."""


def link_tree(tree: TreeReport, site_packages: Path, bin_folder: Path, *, copy: bool = False) -> Linked:
    """Put the tree's files into the environment whose folders those are; `BuildFailed` when another's are in the way.

    Modules go to `site_packages`, scripts to `bin_folder`, and what belongs to neither to the folder above that.
    """
    prefix = bin_folder.parent
    linked: list[StoredFile] = []
    copied = 0
    with writing(f"what {tree.facts.name} consists of"):
        for (source, target), files in _by_folder(tree, site_packages, bin_folder).items():
            copied += _Placing(tree, source, target, site_packages, is_copied=copy).place(files)
            below = target.relative_to(prefix).as_posix()
            linked += [replace(file, path=f"{below}/{name}" if below != "." else name) for name, file in files.items()]
    return Linked(tuple(linked), copied)


def _by_folder(
    tree: TreeReport, site_packages: Path, bin_folder: Path
) -> dict[tuple[Path, Path], dict[str, StoredFile]]:
    """The files by name, for each folder they come from and go to."""
    groups: dict[tuple[str, Path], dict[str, StoredFile]] = {}
    outside = frozenset(tree.facts.prefix_files)
    for file in tree.files:
        parent, _, name = file.path.rpartition("/")
        if parent == "bin" and file.kind == "program":
            key = (parent, bin_folder)
        else:
            key = (parent, bin_folder.parent if file.path in outside else site_packages)
        groups.setdefault(key, {})[name] = file
    return {
        (tree.folder / parent, root if root == bin_folder else root / parent): files
        for (parent, root), files in groups.items()
    }


@dataclass(frozen=True, slots=True)
class _Placing:
    """One folder of a tree on its way into one folder of an environment."""

    tree: TreeReport
    source: Path
    target: Path
    site_packages: Path
    is_copied: bool

    def place(self, files: Mapping[str, StoredFile]) -> int:
        """Put each there, unless an equal one is; the answer is how many bytes were copied."""
        source = os.open(self.source, _FOLDER)
        try:
            target = self._open_target()
            try:
                return sum(self._place_one(file, name, source, target) for name, file in files.items())
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _open_target(self) -> int:
        try:
            self.target.mkdir(parents=True, exist_ok=True)
            return os.open(self.target, _FOLDER)
        except (FileExistsError, NotADirectoryError):
            raise self._collision(self.target) from None

    def _place_one(self, file: StoredFile, name: str, source: int, target: int) -> int:
        try:
            if not self.is_copied:
                os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
                return 0
        except FileExistsError:
            return self._settle(file, name)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
        try:
            return _copy(file, name, source, target)
        except FileExistsError:
            return self._settle(file, name)

    def _settle(self, file: StoredFile, name: str) -> int:
        """Another file has that name: the same one twice does no harm, and bytecode is as equal as its sources."""
        there = self.target / name
        if file.path.endswith(".pyc") and there.is_file():
            return 0
        if not there.is_symlink() and there.is_file() and _digest(there) == file.sha256:
            return 0
        raise self._collision(there)

    def _collision(self, there: Path) -> BuildFailed:
        path = os.path.relpath(there, self.site_packages)
        mine, other = f"{self.tree.facts.name} {self.tree.facts.version}", _owner(path, self.site_packages)
        return BuildFailed(
            f"{mine} and {other} both bring {path!r}, and their files differ",
            remedy="they cannot be in one environment: require only one of them, or other versions",
        )


def _copy(file: StoredFile, name: str, source: int, target: int) -> int:
    mode = 0o555 if file.kind == "program" else 0o444
    with (
        open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=source), "rb") as original,
        open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=target), "wb") as duplicate,
    ):
        shutil.copyfileobj(original, duplicate, 1 << 20)
        os.fchmod(duplicate.fileno(), mode)
    return file.size


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _owner(path: str, site_packages: Path) -> str:
    """Whose file that is already; only asked when something went wrong."""
    for record in sorted(site_packages.glob("*.dist-info/RECORD")):
        rows = csv.reader(record.read_text("utf-8", "replace").splitlines())
        listed = {row[0] for row in rows if row}
        if path in listed or path.removeprefix("../../../") in listed or _is_folder_of(path, listed):
            return record.parent.name.removesuffix(".dist-info").replace("-", " ")
    return "the bare environment"


def _is_folder_of(path: str, listed: set[str]) -> bool:
    return any(name.startswith(f"{path}/") for name in listed)
