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
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.environments.disk.file_inventory import StoredFile, bytes_on_disk
from sandbox.environments.disk.paths import writing
from sandbox.environments.store.tree_report import TreeReport
from sandbox.errors import BuildFailed

_CANNOT_LINK: Final = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Linked:
    """The files of a tree in an environment: paths are relative to the environment's folder."""

    files: tuple[StoredFile, ...]
    copied_bytes: int
    """The bytes of copies, which cost their size again."""
    folder_bytes: int
    """The bytes of the folders that were made for it."""


def link_tree(tree: TreeReport, site_packages: Path, prefix: Path, *, copy: bool = False) -> Linked:
    """Put the tree's files into the environment whose folders those are; `BuildFailed` when another's are in the way.

    Modules go to `site_packages`, scripts and what else belongs next to `lib` to the environment's own folder,
    `prefix`.
    """
    placing = _Placing(tree, site_packages, is_copied=copy)
    linked: list[StoredFile] = []
    copied = 0
    with writing(f"what {tree.facts.name} consists of"):
        groups = _by_folder(tree, site_packages, prefix)
        made = placing.make_folders((target for _, target in groups), above=prefix)
        for (source, target), files in groups.items():
            copied += placing.place(files, source=source, target=target)
            linked += _listed(files, target.relative_to(prefix).as_posix())
        return Linked(tuple(linked), copied, bytes_on_disk(os.lstat(folder) for folder in made))


def _listed(files: Mapping[str, StoredFile], folder: str) -> list[StoredFile]:
    """The files as an environment has them in that folder."""
    below = f"{folder}/" if folder != "." else ""
    return [StoredFile(below + name, file.sha256, file.size, file.kind) for name, file in files.items()]


def _by_folder(tree: TreeReport, site_packages: Path, prefix: Path) -> dict[tuple[Path, Path], dict[str, StoredFile]]:
    """The files by name, for each folder they come from and go to."""
    groups: dict[tuple[str, Path], dict[str, StoredFile]] = {}
    outside = frozenset(tree.facts.prefix_files)
    for file in tree.files:
        parent, _, name = file.path.rpartition("/")
        root = prefix if file.path in outside else site_packages
        groups.setdefault((parent, root), {})[name] = file
    return {(tree.folder / parent, root / parent): files for (parent, root), files in groups.items()}


@dataclass(frozen=True, slots=True)
class _Placing:
    """A tree on its way into an environment, folder by folder."""

    tree: TreeReport
    site_packages: Path
    is_copied: bool

    def make_folders(self, folders: Iterable[Path], *, above: Path) -> list[Path]:
        """Make the folders and all that lead to them from `above`, each once; return the new ones."""
        wanted: dict[Path, None] = {above: None}
        for folder in folders:
            way, step = [], folder
            while step not in wanted:
                way.append(step)
                step = step.parent
            wanted.update(dict.fromkeys(reversed(way)))
        return [folder for folder in wanted if self._make(folder)]

    def _make(self, folder: Path) -> bool:
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise self._collision(folder) from None
            return False
        return True

    def place(self, files: Mapping[str, StoredFile], *, source: Path, target: Path) -> int:
        """Put each there, unless an equal one is; the answer is how many bytes were copied."""
        copied = 0
        with _opened(source) as origin, _opened(target) as goal:
            for name, file in files.items():
                try:
                    copied += self._place_one(file, name, origin, goal)
                except FileExistsError:
                    self._settle(file, target / name)
        return copied

    def _place_one(self, file: StoredFile, name: str, source: int, target: int) -> int:
        try:
            if not self.is_copied:
                os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
                return 0
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
        return _copy(file, name, source, target)

    def _settle(self, file: StoredFile, there: Path) -> None:
        """Another file has that name: the same one twice does no harm, and bytecode is as equal as its sources."""
        if file.path.endswith(".pyc") and there.is_file():
            return
        if there.is_symlink() or not there.is_file() or _digest(there) != file.sha256:
            raise self._collision(there)

    def _collision(self, there: Path) -> BuildFailed:
        path = os.path.relpath(there, self.site_packages)
        own = {file.path for file in self.tree.files}
        mine, other = f"{self.tree.facts.name} {self.tree.facts.version}", _owner(path, self.site_packages, but=own)
        return BuildFailed(
            f"{mine} and {other} both bring {path!r}, and their files differ",
            remedy="they cannot be in one environment: require only one of them, or other versions",
        )


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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


def _owner(path: str, site_packages: Path, *, but: Collection[str]) -> str:
    """Return the package that already has this file, for the message of an error."""
    for record in sorted(site_packages.glob("*.dist-info/RECORD")):
        if f"{record.parent.name}/RECORD" in but:
            continue
        rows = csv.reader(record.read_text("utf-8", "replace").splitlines())
        listed = {row[0] for row in rows if row}
        if path in listed or _is_folder_of(path, listed):
            return record.parent.name.removesuffix(".dist-info").replace("-", " ")
    return "the bare environment"


def _is_folder_of(path: str, listed: set[str]) -> bool:
    return any(name.startswith(f"{path}/") for name in listed)
