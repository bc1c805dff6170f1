"""Folders of this machine that packages come from, as a box sees them: `file:` indexes, and folders of wheels.

    /links/<n>          the n-th folder of wheels
    /indexes/<n>/…      the n-th `file:` index, and the folder next to it that its pages link to, such as `../../files/`

A box may run as a user who cannot read a private folder, and sees no target of a link that leads out of it; of such a
folder of wheels the box gets a copy.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sandbox.environments.disk.paths import make_folder
from sandbox.environments.indexes.settings import IndexSettings, local_path
from sandbox.errors import IndexRefused

_HREF: Final = re.compile(r"""href\s*=\s*["']([^"'#]+)""", re.I)
_DISTRIBUTIONS: Final = (".whl", ".tar.gz", ".zip")
_MAX_PAGE_READ: Final = 1 << 20
_OPEN_TO_OTHERS: Final = 0o755


@dataclass(frozen=True, slots=True)
class LocalPlaces:
    """The folders that a box is shown: each place in the box, and its folder of this machine."""

    shown: Mapping[str, Path] = field(default_factory=dict)
    originals: Mapping[str, Path] = field(default_factory=dict)
    """The folders that copies were made of, by their places in the box."""
    urls: Mapping[str, str] = field(default_factory=dict)
    """The address in the box of each index, by its own address."""

    @property
    def links(self) -> dict[str, str]:
        """The places of folders of wheels, by their paths on this machine."""
        found = {place: path for place, path in self.shown.items() if place.startswith("/links/")}
        return {str(self.originals.get(place, path)): place for place, path in found.items()}

    def on_host(self, url: str) -> Path | None:
        """Return the file of this machine that a `file:` address in the box means, if it is one of those shown."""
        path = os.path.normpath(unquote(urlsplit(url).path))
        for place, folder in self.shown.items():
            if path.startswith(f"{place}/"):
                found = self.originals.get(place, folder) / path[len(place) + 1 :]
                # A page may name a link that leads elsewhere; a box shows only what lies within.
                is_within = place in self.originals or found.resolve().is_relative_to(folder.resolve())
                return found if is_within else None
        return None


def lay_out(settings: IndexSettings, folder: Path) -> LocalPlaces:
    """Return what a box must be shown; copies are made below `folder`."""
    shown: dict[str, Path] = {}
    originals: dict[str, Path] = {}
    urls: dict[str, str] = {}
    for number, link in enumerate(settings.reachable_links):
        path = local_path(link)
        if path is None or not path.is_dir():  # like pip, uv takes a missing folder for an empty one
            continue
        place = f"/links/{number}"
        shown[place] = path
        if _needs_copy(path):
            originals[place] = path
            shown[place] = _copy(path, folder / f"links-{number}")
    for number, index in enumerate(settings.reachable_indexes):
        root = local_path(index.url)
        if root is None:
            continue
        if not root.is_dir():
            raise IndexRefused(
                f"the package index {index.url} did not answer as one: the folder does not exist",
                remedy="make it, or correct the index's address",
            )
        base = _base_of(root)
        for each in sorted(base):
            shown[f"/indexes/{number}/{each.name}"] = each
        urls[index.url] = f"file:///indexes/{number}/{root.name}"
    return LocalPlaces(shown, originals, urls)


def _base_of(root: Path) -> set[Path]:
    """Return the index's folder, and the folders next to it that its pages link to.

    A single page says where an index keeps its files, because the tools that write indexes create out all pages alike.
    """
    found = {root}
    page = _first_page(root)
    if page is None:
        return found
    with page.open("rb") as file:
        text = file.read(_MAX_PAGE_READ).decode("utf-8", "replace")
    for href in _HREF.findall(text):
        path = local_path(href) if href.lower().startswith("file:") else page.parent / unquote(href)
        linked = Path(os.path.normpath(path or root))
        if linked.is_relative_to(root.parent) and linked != root.parent:
            found.add(root.parent / linked.relative_to(root.parent).parts[0])
    return {each for each in found if each.is_dir()}


def _first_page(root: Path) -> Path | None:
    with os.scandir(root) as entries:
        pages = (Path(entry.path) / "index.html" for entry in entries if entry.is_dir())
        return next((page for page in pages if page.is_file()), None)


def _needs_copy(folder: Path) -> bool:
    """Whether another user could not read all of the folder's distributions, or some are links."""
    if os.geteuid() != 0:
        return any(path.is_symlink() for path in _distributions(folder))
    if folder.stat().st_mode & stat.S_IXOTH == 0 or folder.stat().st_mode & stat.S_IROTH == 0:
        return True
    return any(not stat.S_ISREG(mode) or not mode & stat.S_IROTH for mode in map(_mode, _distributions(folder)))


def _mode(path: Path) -> int:
    return path.lstat().st_mode


def _distributions(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.name.endswith(_DISTRIBUTIONS))


def _copy(folder: Path, target: Path) -> Path:
    make_folder(target, _OPEN_TO_OTHERS)
    for path in _distributions(folder):
        if path.is_file():
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(0o644)
    return target
