"""A tree as one file, the same bytes for the same tree, and the folder where such files are kept.

::

    <caches>/sandbox-images/
        <inputs>.tar      the files
        <inputs>.json     what they are: `Record`; written last, so that what has none is not whole
        <inputs>.lock     who makes it, keeps others waiting
        making-<random>/  the tree while it is made

A tarball is checked against its record before it is used: one that was changed or cut is made again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.errors import BackendUnavailable
from sandbox.images.image_python import ImagePython

_CLOSED: Final = 0o700
_LONG_AGO: Final = 1


class Record(BaseModel):
    """What a tarball is, and what it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    recipe: str
    inputs: str
    content: str
    bytes: int
    created: datetime
    made_from: str
    made_by: str
    python: ImagePython | None = None
    """None in records of engines that did not ask."""


def default_cache() -> Path:
    """Where this user's caches are."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "sandbox-images"


class TarballCache:
    """The folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_cache()

    def tarball(self, inputs: str) -> Path:
        """Where the files of these inputs are, or would be."""
        return self.folder / f"{inputs}.tar"

    def find(self, inputs: str) -> Record | None:
        """The record of these inputs, where there is one and the tarball is what it says."""
        try:
            record = Record.model_validate_json((self.folder / f"{inputs}.json").read_bytes())
            is_whole = file_digest(self.tarball(inputs)) == record.content
        except (OSError, ValidationError):
            return None
        return record if is_whole and record.inputs == inputs else None

    def keep(self, record: Record, tarball: Path) -> None:
        """Take in what was made aside in this folder."""
        (self.folder / f"{record.inputs}.json").unlink(missing_ok=True)
        tarball.rename(self.tarball(record.inputs))
        self.note(record)

    def note(self, record: Record) -> None:
        """Write down what is known of a tarball that has its place; for who has it locked."""
        aside = self.folder / f"{record.inputs}.new"
        aside.write_text(record.model_dump_json(indent=2))
        aside.rename(self.folder / f"{record.inputs}.json")

    def remove(self, *, but: str | None = None) -> int:
        """Remove the tarballs, but for those of these inputs; how many bytes that gave back."""
        freed = 0
        for tarball in [path for path in self.folder.glob("*.tar") if path.stem != but]:
            freed += tarball.stat().st_size
            tarball.with_suffix(".json").unlink(missing_ok=True)
            tarball.unlink()
        return freed

    @contextmanager
    def locked(self, inputs: str) -> Iterator[None]:
        """One maker at a time; others wait."""
        from filelock import FileLock

        self._open()
        with FileLock(self.folder / f"{inputs}.lock", mode=0o600, thread_local=False):
            yield

    @contextmanager
    def aside(self) -> Iterator[Path]:
        """A folder to make something in, on the same file system; gone at the end."""
        folder = Path(tempfile.mkdtemp(prefix="making-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def _open(self) -> None:
        try:
            self.folder.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as error:
            raise BackendUnavailable(
                f"the folder {self.folder} cannot be made: {error.strerror}", remedy="name another in XDG_CACHE_HOME"
            ) from error
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
            raise BackendUnavailable(
                f"others could change what images are made of: {self.folder} is not this user's alone",
                remedy="name a folder of your own in XDG_CACHE_HOME",
            )


def write_tarball(tree: Path, file: BinaryIO, *, began: float) -> None:
    """The tree in one order, without names of users; what is newer than `began` was made by us and gets one time."""

    def settled(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uname = member.gname = ""
        member.mtime = _LONG_AGO if member.mtime >= began else int(member.mtime)
        return member

    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, str(path.relative_to(tree)), recursive=False, filter=settled)


def file_digest(path: Path) -> str:
    """SHA-256 of its bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
