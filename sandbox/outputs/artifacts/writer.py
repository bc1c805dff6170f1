"""Write the artifacts of one call into the store, and hold them there until the outcome has been returned.

The bytes go to a file that is locked by its writer, and the digest is computed on the way. The digests held are in a
locked file as well: a lock ends with its process, so a dead process holds nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock

from sandbox.errors import ArtifactsUnavailable
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.kinds import MAX_DETECTION_BYTES, detect_kind
from sandbox.outputs.artifacts.store import ID_LENGTH, TenantStore
from sandbox.threads import Threads


class ArtifactWriter:
    """For one call, in any thread; to be closed. Nothing is made before there is something to keep."""

    def __init__(self, tenant_store: TenantStore, threads: Threads | None = None) -> None:
        self.threads = threads or Threads()
        self._tenant_store = tenant_store
        self._hold: int | None = None
        self._held: Path | None = None
        self._pending: list[PartialArtifact] = []
        self._is_closed = False
        self._one_at_a_time = Lock()

    def begin(self) -> PartialArtifact:
        """Return a new artifact, to be written; raise `ArtifactsUnavailable` without a store, or after `close`."""
        with self._one_at_a_time:
            self._refuse_when_closed()
            self._tenant_store.make()
            path = self._tenant_store.part("coming") / secrets.token_hex(16)
            with self._tenant_store.writing():
                pending = PartialArtifact(path, _locked_file(path), keep=self._keep, writing=self._tenant_store.writing)
            self._pending.append(pending)
            return pending

    def close(self) -> None:
        """Hold nothing any longer, and forget what was not kept."""
        with self._one_at_a_time:
            self._is_closed = True
        for pending in self._pending:
            pending.drop()
        if self._hold is not None:
            if self._held is not None:
                self._held.unlink(missing_ok=True)
            os.close(self._hold)
            self._hold = None

    def _refuse_when_closed(self) -> None:
        """Refuse an artifact after `close`: a thread of a cancelled call may still write, and never release it."""
        if self._is_closed:
            raise ArtifactsUnavailable("artifacts of a call cannot be kept after its outcome has been returned")

    def _keep(self, written: Path, artifact: Artifact) -> None:
        with self._one_at_a_time:
            self._refuse_when_closed()
            with self._tenant_store.writing():
                self._note(artifact)
        with self._tenant_store.writing():
            self._tenant_store.publish(written, artifact)

    def _note(self, artifact: Artifact) -> None:
        if self._hold is None:
            self._held = self._tenant_store.part("held") / secrets.token_hex(16)
            self._hold = _locked_file(self._held)
        os.write(self._hold, artifact.digest.encode() + b"\n")


class PartialArtifact:
    """An artifact being written: either kept or dropped in the end."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        *,
        keep: Callable[[Path, Artifact], None],
        writing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._path = path
        self._descriptor = descriptor
        self._keep = keep
        self._writing = writing
        self._digest = hashlib.sha256()
        self._beginning = b""
        self._one_at_a_time = Lock()
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Write more bytes; do nothing if the artifact was dropped meanwhile."""
        with self._one_at_a_time:
            if self._descriptor >= 0:
                with self._writing():
                    self._write(data)

    def keep(self, name: str) -> Artifact:
        """Publish the artifact, which is complete; raise `QuotaReached` if there is no room for it."""
        kind, digest = detect_kind(self._beginning), self._digest.hexdigest()
        artifact = Artifact(
            id=digest[:ID_LENGTH],
            name=name,
            mime=kind.mime,
            bytes=self.size,
            digest=digest,
            width=kind.width,
            height=kind.height,
        )
        try:
            self._keep(self._path, artifact)
        finally:
            self.drop()
        return artifact

    def drop(self) -> None:
        """Forget it; without harm when it was kept."""
        with self._one_at_a_time:
            if self._descriptor >= 0:
                self._path.unlink(missing_ok=True)
                os.close(self._descriptor)
                self._descriptor = -1

    def _write(self, data: bytes | memoryview) -> None:
        if len(self._beginning) < MAX_DETECTION_BYTES:
            self._beginning += bytes(data[: MAX_DETECTION_BYTES - len(self._beginning)])
        self._digest.update(data)
        self.size += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def _locked_file(path: Path) -> int:
    """Return a new file that is locked for as long as its descriptor is open."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor
