"""The removal of files from a tree of packages before it becomes an image.

Packages that only served to install the others are removed by their file lists, so that all of their files go and no
file of another package. The remaining files lose their setuid and setgid bits. No path is followed out of the tree,
because the tree is full of absolute links, which lead to the files of this machine.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandbox.images.recipe import Recipe

_LISTS: Final = "var/lib/dpkg/info"
_STATUS: Final = "var/lib/dpkg/status"
_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin", "bin", "sbin")
_SPECIAL_BITS: Final = stat.S_ISUID | stat.S_ISGID


def strip(recipe: Recipe, tree: Path) -> None:
    """Remove the files that the recipe excludes, and add its folders and links; a link replaces an existing file."""
    remove_packages(tree, recipe.without_packages)
    kept = {path for pattern in recipe.kept_paths for path in tree.glob(pattern)}
    programs = [f"{folder}/{pattern}" for folder in _PROGRAM_FOLDERS for pattern in recipe.without_programs]
    for pattern in [*recipe.without_paths, *programs]:
        for path in list(tree.glob(pattern)):
            _remove(tree, path, kept)
    remove_special_bits(tree)
    for name in recipe.folders:
        (tree / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, target in recipe.links.items():
        _remove(tree, tree / name, set())
        (tree / name).symlink_to(target)


def remove_packages(tree: Path, names: Iterable[str]) -> None:
    """Remove the files that only these packages have, and their entries in the list of installed packages."""
    unwanted = set(names)
    lists = list((tree / _LISTS).glob("*.list"))
    shared = {path for each in lists if _package(each) not in unwanted for path in _paths(each)}
    for each in lists:
        if _package(each) in unwanted:
            for path in sorted(set(_paths(each)) - shared, reverse=True):  # the files of a folder before the folder
                _remove_listed(tree, tree / path.lstrip("/"))
    _forget(tree / _STATUS, unwanted)


def _package(file_list: Path) -> str:
    return file_list.name.removesuffix(".list").partition(":")[0]


def _paths(file_list: Path) -> Iterator[str]:
    return (line for line in file_list.read_text(encoding="utf-8").splitlines() if line not in ("", "/."))


def _remove_listed(tree: Path, path: Path) -> None:
    if not _is_inside(tree, path):
        return
    with suppress(OSError):  # a folder in which others have something, or a file that is gone
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def _forget(status: Path, unwanted: set[str]) -> None:
    if status.is_file():
        entries = status.read_text(encoding="utf-8").split("\n\n")
        names = (entry.strip().partition("\n")[0].removeprefix("Package: ") for entry in entries)
        status.write_text(
            "\n\n".join(entry for entry, name in zip(entries, names, strict=True) if name not in unwanted)
        )


def _remove(tree: Path, path: Path, kept: set[Path]) -> None:
    if path in kept or not _is_inside(tree, path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    elif any(each.is_relative_to(path) for each in kept):
        for below in list(path.iterdir()):
            _remove(tree, below, kept)
    else:
        shutil.rmtree(path)


def _is_inside(tree: Path, path: Path) -> bool:
    return path.parent.resolve().is_relative_to(tree.resolve())


def remove_special_bits(tree: Path) -> None:
    """Remove the bits by which a program gives rights to its caller."""
    for parent, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = Path(parent, name)
            mode = path.lstat().st_mode
            if mode & _SPECIAL_BITS and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~_SPECIAL_BITS)
