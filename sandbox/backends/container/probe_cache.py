"""What was found of a runtime's limits, and where it is remembered.

Proving takes a second and four containers, so it is done once for a daemon, a runtime with its arguments, and a
kernel: an engine remembers it, and so does, for a day, the user's cache folder, that a short command need not prove
again. A runtime that is exchanged behind the same path and arguments is noticed then. ::

    <caches>/sandbox-canaries/
        <digest of all that, and of the canaries>.json

What a canary left open is remembered by the engine alone. A folder that others can write to is no evidence and is left
alone. What cannot be read, is old or of another form is as if it were not there; what cannot be written is proved again
by the next.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from sandbox.backends.docker.daemon import is_podman, translated
from sandbox.outcome import LayerState, MeasuredBy

if TYPE_CHECKING:
    from docker import DockerClient

LimitName = Literal["disk", "inodes", "open_files", "processes_of_user", "network", "memory", "processes", "cpus"]
OF_CONTROL_GROUPS: Final[tuple[LimitName, ...]] = ("memory", "processes", "cpus")

_FORMAT: Final = 1
_LIFE: Final = timedelta(days=1)
_CLOSED: Final = 0o700


class Finding(BaseModel):
    """Whether one limit holds, and how that was seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_enforced: bool
    is_certain: bool = True
    """Whether trying again would be of no use: not where a canary ended in a way that says nothing."""
    evidence: str


class Proof(BaseModel):
    """What was found of a runtime."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: str
    findings: Mapping[LimitName, Finding]
    found: AwareDatetime

    @property
    def unenforced(self) -> tuple[LimitName, ...]:
        """The limits that do not hold."""
        return tuple(name for name, finding in self.findings.items() if not finding.is_enforced)

    @property
    def control_groups(self) -> LayerState:
        """Whether the runtime enforces the limits of control groups, as the canaries found."""
        loose = [name for name in OF_CONTROL_GROUPS if name in self.unenforced]
        evidence = "; ".join(f"{name}: {self.findings[name].evidence}" for name in loose)
        held = f"{', '.join(OF_CONTROL_GROUPS)}: each was seen to hold"
        detail = f"runtime {self.runtime} does not limit {evidence}" if loose else held
        return LayerState(in_force=not loose, detail=detail, measured_by=MeasuredBy.READ_OUTSIDE)


class Proofs:
    """What was proved already. One for an engine or a process; may be asked from several threads at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()
        self._proved: dict[str, Proof] = {}
        self._lock = threading.Lock()

    def find_or_prove(self, client: DockerClient, *, image: str, runtime: str) -> Proof:
        """The proof of that runtime, found now if it was not; blocks; raises `BackendUnavailable` as `prove` does."""
        from sandbox.backends.container.limit_probes import prove

        return self.find_or(_key(client, runtime), lambda: prove(client, image=image, runtime=runtime))

    def find_or(self, key: str, prove: Callable[[], Proof]) -> Proof:
        """What is remembered under that key; otherwise what `prove` finds, which is remembered. One at a time."""
        with self._lock:
            known = self._proved.get(key)
            proof = known if known is not None and _is_fresh(known) else self._read(key)
            if proof is None:
                proof = prove()
                self._write(key, proof)
            self._proved[key] = proof
            return proof

    def _read(self, key: str) -> Proof | None:
        try:
            proof = Proof.model_validate_json((self._folder / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None
        return proof if _is_fresh(proof) and _is_only_ours(self._folder) else None

    def _write(self, key: str, proof: Proof) -> None:
        if not all(finding.is_certain for finding in proof.findings.values()):
            return
        with suppress(OSError):
            self._folder.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
            if not _is_only_ours(self._folder):
                return
            self._remove_old()
            descriptor, aside = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(descriptor, "w") as file:
                file.write(proof.model_dump_json(indent=2))
            os.replace(aside, self._folder / f"{key}.json")

    def _remove_old(self) -> None:
        oldest = (datetime.now(UTC) - _LIFE).timestamp()
        for path in self._folder.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def default_folder() -> Path:
    """Where this user's caches are."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "sandbox-canaries"


def _is_fresh(proof: Proof) -> bool:
    return timedelta() <= datetime.now(UTC) - proof.found < _LIFE


def _is_only_ours(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022


def _key(client: DockerClient, runtime: str) -> str:
    """What a proof depends on. Podman draws its ID anew with every answer."""
    with translated("asking what it is"):
        told, identity = client.info(), ("Name", "DockerRootDir") if is_podman(client) else ("ID",)
    asked = {
        "format": _FORMAT,
        "canaries": _canaries(),
        "daemon": [
            told.get(name) for name in (*identity, "ServerVersion", "KernelVersion", "CgroupVersion", "RuncCommit")
        ],
        "runtime": [runtime, (told.get("Runtimes") or {}).get(runtime)],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _canaries() -> str:
    """A digest of how limits are tried."""
    sources = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in ("limit_probes", "limit_probe_program")]
    return hashlib.sha256(b"".join(sources)).hexdigest()
