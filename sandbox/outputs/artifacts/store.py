"""The store of artifacts: content by its SHA-256, in a folder for each tenant.

    <store>/artifacts-1/<tenant>/
        content/<digest>     the bytes; read-only, and always whole
        about/<digest>       the metadata: a name, a kind; missing metadata is read from the content again
        coming/<random>      being written, locked by its writer
        held/<random>        digests that a call under way will name, locked by its engine
        lock                 held while making room

Content gets its name by a rename when all of it is there and its digest is known. So a killed process leaves nothing
but an unlocked file in `coming`, and the next process that makes room removes it. A tenant keeps the same bytes once,
and each time they come they are as young as if they were new. Tenants share nothing: an artifact of one tenant reveals
nothing to another, and displaces nothing of another, except for the total size.

The oldest goes first: artifacts over the age, over the tenant's quota, over the total. Artifacts that a call under way
holds stay. A reader has the file open, and reads it to its end even if its name is gone.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Final

from sandbox.errors import ArtifactMissing, ArtifactsUnavailable, SpecError
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.kinds import MAX_DETECTION_BYTES, detect_kind

_FORMAT: Final = "artifacts-1"
ID_LENGTH: Final = 32
_PARTS: Final = ("content", "about", "coming", "held")
_YOUNG_S: Final = 60.0
_PRUNE_EVERY_S: Final = 300.0
_MAX_ABOUT: Final = 1 << 14
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept, and for how long."""

    age_s: float = 7 * 24 * 3600.0
    total_bytes: int = 8 << 30
    tenant_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact of a tenant, and when it was last kept, in seconds since the epoch."""

    artifact: Artifact
    since: float


@dataclass(frozen=True, slots=True)
class _Content:
    """A file with content."""

    path: Path
    size: int
    since: float


class QuotaReached(Exception):
    """There is no room for it, even with everything removed that may be."""


def default_store() -> Path:
    """Return `$SANDBOX_ARTIFACTS`, or the folder `sandbox` in the user's caches."""
    if chosen := os.environ.get("SANDBOX_ARTIFACTS"):
        return Path(chosen).absolute()
    from platformdirs import user_cache_path

    return user_cache_path("sandbox", appauthor=False)


class ArtifactStore:
    """All artifacts of one user; nothing is made before something is kept."""

    def __init__(self, root: str | Path | None = None, *, retention: Retention | None = None) -> None:
        if root is not None and not isinstance(root, str | os.PathLike):
            raise SpecError(f"artifacts cannot be kept in {root!r:.80}", remedy="give the path of a folder")
        self._chosen = None if root is None else Path(root)
        self.retention = retention or Retention()
        self._next_prune = 0.0

    @property
    def root(self) -> Path:
        """The store's own folder, which need not exist."""
        return (default_store() if self._chosen is None else self._chosen) / _FORMAT

    def shelf(self, tenant: str = "") -> TenantStore:
        """Return the artifacts of one tenant."""
        if not isinstance(tenant, str):
            raise SpecError(f"a tenant is text, not {tenant!r:.80}", remedy="name one, or leave it out")
        name = hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:ID_LENGTH] if tenant else "default"
        return TenantStore(self, name)

    def prune(self) -> int:
        """Remove what is too old or too much, of all tenants; how many bytes that freed."""
        freed = sum(TenantStore(self, folder.name).prune() for folder in self._folders())
        contents = sorted((each for folder in self._folders() for each in _contents(folder)), key=_age)
        excess = sum(each.size for each in contents) - self.retention.total_bytes
        for each in contents if excess > 0 else ():
            removed = TenantStore(self, each.path.parent.parent.name).remove([each])
            freed, excess = freed + removed, excess - removed
            if excess <= 0:
                break
        return freed

    def prune_if_due(self) -> None:
        """Prune now and then, for stores that are never pruned by hand."""
        now = time.monotonic()
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE_EVERY_S
            self.prune()

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self.root.iterdir() if path.is_dir()]
        except OSError:
            return []


class TenantStore:
    """The artifacts of one tenant."""

    def __init__(self, store: ArtifactStore, name: str) -> None:
        self._store = store
        self._name = name

    @cached_property
    def _folder(self) -> Path:
        """Worked out when it is needed: most calls keep nothing."""
        return self._store.root / self._name

    def everything(self) -> list[StoredArtifact]:
        """Return all that is kept, the youngest first."""
        contents = sorted(_contents(self._folder), key=_age, reverse=True)
        return [StoredArtifact(self._about(each.path.name, each.size), each.since) for each in contents]

    def find(self, id: str) -> Artifact:
        """Return the artifact of that id, or of one that begins so and is the only one; raises `ArtifactMissing`."""
        path = self._path(id)
        try:
            return self._about(path.name, path.stat().st_size)
        except OSError:
            raise _missing(id) from None

    def open(self, id: str) -> IO[bytes]:
        """Open an artifact for reading; raise `ArtifactMissing`."""
        try:
            return self._path(id).open("rb")
        except OSError:
            raise _missing(id) from None

    def prune(self) -> int:
        """Remove what is too old or over the tenant's quota; how many bytes that freed."""
        with self.locked():
            return self._prune(coming=0)

    def remove(self, contents: list[_Content]) -> int:
        """Remove these, but for what calls under way hold; how many bytes that freed."""
        with self.locked():
            return self._remove(contents, until=None)

    def make(self) -> None:
        """See that its folders are there; raises `ArtifactsUnavailable`."""
        with self.writing():
            for part in _PARTS:
                (self._folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.stat().st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to another user")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raise `ArtifactsUnavailable` for any error of the disk."""
        try:
            yield
        except OSError as error:
            raise ArtifactsUnavailable(
                f"artifacts cannot be kept in {self._folder}: {error.strerror}",
                remedy="name another folder in SANDBOX_ARTIFACTS",
            ) from None

    def part(self, name: str) -> Path:
        """Return the path of a folder of the tenant."""
        return self._folder / name

    def publish(self, written: Path, artifact: Artifact) -> None:
        """Give content that is whole its name; raises `QuotaReached` when there is no room for it."""
        target = self._folder / "content" / artifact.digest
        with self.locked():
            if not target.exists():
                self._make_room(artifact.bytes)
                about = {"name": artifact.name, "mime": artifact.mime, "size": [artifact.width, artifact.height]}
                _write(self._folder, "about", artifact.digest, json.dumps(about).encode())
                written.chmod(0o400)
                written.rename(target)
            os.utime(target)
        self._store.prune_if_due()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes that lock it."""
        self.make()
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _path(self, id: str) -> Path:
        """Return where the content of that id is, or would be."""
        if not isinstance(id, str):
            raise SpecError(f"the id of an artifact is text, not {id!r:.80}", remedy="give its `id`")
        contents = self._folder / "content"
        if not 1 <= len(id) <= 64 or not _HEX.issuperset(id):
            raise _missing(id)
        if len(id) == 64:
            return contents / id
        try:
            found = [name for name in os.listdir(contents) if name.startswith(id)]
        except OSError:
            found = []
        if len(found) > 1:
            raise ArtifactMissing(f"{len(found)} artifacts begin with {id!r}", remedy="give more of the id")
        if not found:
            raise _missing(id)
        return contents / found[0]

    def _about(self, digest: str, size: int) -> Artifact:
        """Return the metadata, read from the content again if it was lost."""
        try:
            with (self._folder / "about" / digest).open("rb") as file:
                about = json.loads(file.read(_MAX_ABOUT))
            width, height = about["size"]
            name, mime = about["name"], about["mime"]
        except (OSError, ValueError, KeyError, TypeError):
            with (self._folder / "content" / digest).open("rb") as file:
                kind = detect_kind(file.read(MAX_DETECTION_BYTES))
            name, mime, width, height = digest[:ID_LENGTH], kind.mime, kind.width, kind.height
        return Artifact(
            id=digest[:ID_LENGTH], name=name, mime=mime, bytes=size, digest=digest, width=width, height=height
        )

    def _make_room(self, size: int) -> None:
        self._prune(coming=size)
        if sum(each.size for each in _contents(self._folder)) + size > self._store.retention.tenant_bytes:
            raise QuotaReached

    def _prune(self, *, coming: int) -> int:
        retention = self._store.retention
        self._remove_abandoned()
        contents = sorted(_contents(self._folder), key=_age)
        old = [each for each in contents if each.since < time.time() - retention.age_s]
        freed = self._remove(old, until=None)
        excess = sum(each.size for each in contents) - freed + coming - retention.tenant_bytes
        return freed + (self._remove(contents[len(old) :], until=excess) if excess > 0 else 0)

    def _remove(self, contents: list[_Content], *, until: int | None) -> int:
        """Remove these in their order, as long as fewer than `until` bytes are freed; how many were."""
        held, freed = self._held() if contents else set(), 0
        for each in contents:
            if until is not None and freed >= until:
                break
            if each.path.name not in held:
                with suppress(OSError):
                    each.path.unlink()
                    freed += each.size
                    (self._folder / "about" / each.path.name).unlink(missing_ok=True)
        return freed

    def _held(self) -> set[str]:
        """Return the digests that calls under way will name; what calls held that are gone is forgotten."""
        held: set[str] = set()
        for path in _files(self._folder / "held"):
            if not _remove_if_abandoned(path):
                with suppress(OSError):
                    held.update(path.read_text().split())
        return held

    def _remove_abandoned(self) -> None:
        for path in _files(self._folder / "coming"):
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> bool:
    """Remove a file whose writer is gone; return whether it was removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_mtime > time.time() - _YOUNG_S:  # the writer may not have locked it yet
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _contents(folder: Path) -> list[_Content]:
    found = []
    for path in _files(folder / "content"):
        with suppress(OSError):
            status = path.stat()
            found.append(_Content(path, status.st_size, status.st_mtime))
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _write(folder: Path, part: str, name: str, data: bytes) -> None:
    passing = folder / "coming" / secrets.token_hex(16)
    passing.write_bytes(data)
    passing.rename(folder / part / name)


def _age(content: _Content) -> float:
    return content.since


def _missing(id: str) -> ArtifactMissing:
    return ArtifactMissing(
        f"there is no artifact {id[:80]!r}", remedy="`sandbox artifact list` names those that are kept"
    )
