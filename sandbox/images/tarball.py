"""A tree as one file, with the same bytes for the same tree, and the cache of such files.

::

    <caches>/sandbox-images/
        <inputs>.tar      the files
        <inputs>.json     their `Record`, written last, so that a tarball without one is incomplete
        <inputs>.lock     the lock of the process that builds the files
        making-<random>/  the tree during a build

The cache checks a tarball against its record before each use, and builds a changed or truncated tarball again.
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
    """The description of a tarball, and of its inputs."""

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
    """Absent in records of older engines."""


def default_cache() -> Path:
    """Return the folder in this user's caches."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "sandbox-images"


class TarballCache:
    """The cache of tarballs."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_cache()

    def tarball(self, inputs: str) -> Path:
        """Return the path of the tarball of these inputs."""
        return self.folder / f"{inputs}.tar"

    def find(self, inputs: str) -> Record | None:
        """Return the record of these inputs, if it exists and fits its tarball."""
        try:
            record = Record.model_validate_json((self.folder / f"{inputs}.json").read_bytes())
            is_whole = file_digest(self.tarball(inputs)) == record.content
        except (OSError, ValidationError):
            return None
        return record if is_whole and record.inputs == inputs else None

    def keep(self, record: Record, tarball: Path) -> None:
        """Move a finished tarball into the cache."""
        (self.folder / f"{record.inputs}.json").unlink(missing_ok=True)
        tarball.rename(self.tarball(record.inputs))
        self.note(record)

    def note(self, record: Record) -> None:
        """Write the record of a tarball in the cache; the caller has its lock."""
        aside = self.folder / f"{record.inputs}.new"
        aside.write_text(record.model_dump_json(indent=2))
        aside.rename(self.folder / f"{record.inputs}.json")

    def remove(self, *, but: str | None = None) -> int:
        """Remove the tarballs, except for those of these inputs; return the freed bytes."""
        freed = 0
        for tarball in [path for path in self.folder.glob("*.tar") if path.stem != but]:
            freed += tarball.stat().st_size
            tarball.with_suffix(".json").unlink(missing_ok=True)
            tarball.unlink()
        return freed

    @contextmanager
    def locked(self, inputs: str) -> Iterator[None]:
        """Lock the inputs; other processes wait."""
        from filelock import FileLock

        self._open()
        with FileLock(self.folder / f"{inputs}.lock", mode=0o600, thread_local=False):
            yield

    @contextmanager
    def aside(self) -> Iterator[Path]:
        """Make a temporary folder on the same file system."""
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
    """Write the tree in a fixed order, without names of users; files newer than `began` are ours and get one time."""

    def settled(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uname = member.gname = ""
        member.mtime = _LONG_AGO if member.mtime >= began else int(member.mtime)
        return member

    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, str(path.relative_to(tree)), recursive=False, filter=settled)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
