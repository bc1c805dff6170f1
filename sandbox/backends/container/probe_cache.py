"""The findings about a runtime's limits, and the cache that remembers them.

Probing takes a second and four containers, so the engine probes once per daemon, runtime with its arguments, and
kernel. The engine remembers the findings, and so does the user's cache folder, for a day, so that a short command need
not probe again. The cache notices a runtime that is replaced behind the same path and arguments after that day. ::

    <caches>/sandbox-limit-probes/
        <digest of all that, and of the probes>.json

Only the engine remembers a probe without a clear result. The cache ignores a folder that other users can write to, and
files that are unreadable, old or of another format.
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

from sandbox.backends.container.docker.client import is_podman
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.limit_probes import PROGRAM, LimitFinding
from sandbox.outcome import LayerState, MeasuredBy

if TYPE_CHECKING:
    from docker import DockerClient

LimitName = Literal["disk", "inodes", "open_files", "processes_of_user", "network", "memory", "processes", "cpus"]
OF_CONTROL_GROUPS: Final[tuple[LimitName, ...]] = ("memory", "processes", "cpus")

_FORMAT: Final = 2
_LIFE: Final = timedelta(days=1)
_CLOSED: Final = 0o700


class RuntimeLimits(BaseModel):
    """The findings about a runtime."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: str
    findings: Mapping[LimitName, LimitFinding]
    found: AwareDatetime

    @property
    def unenforced(self) -> tuple[LimitName, ...]:
        """Return the limits that the runtime does not enforce."""
        return tuple(name for name, finding in self.findings.items() if not finding.is_enforced)

    @property
    def control_groups(self) -> LayerState:
        """Return the layer `cgroup`: whether the runtime enforces the limits of control groups."""
        broken = [name for name in OF_CONTROL_GROUPS if name in self.unenforced]
        evidence = "; ".join(f"{name}: {self.findings[name].evidence}" for name in broken)
        held = f"{', '.join(OF_CONTROL_GROUPS)}: each was seen to hold"
        detail = f"runtime {self.runtime} does not limit {evidence}" if broken else held
        return LayerState(in_force=not broken, detail=detail, measured_by=MeasuredBy.READ_OUTSIDE)


class ProbeCache:
    """Remember findings, for one engine or process; several threads may ask at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()
        self._known: dict[str, RuntimeLimits] = {}
        self._lock = threading.Lock()

    def find_or_probe(self, client: DockerClient, *, image: str, runtime: str) -> RuntimeLimits:
        """Return the findings about that runtime, from a new probe if necessary; block meanwhile."""
        from sandbox.backends.container.runtime_probe import probe_runtime

        return self.find_or(_key(client, runtime), lambda: probe_runtime(client, image=image, runtime=runtime))

    def find_or(self, key: str, probe: Callable[[], RuntimeLimits]) -> RuntimeLimits:
        """Return the findings under that key, or those of `probe`, which runs in one thread at a time."""
        with self._lock:
            known = self._known.get(key)
            limits = known if known is not None and _is_fresh(known) else self._read(key)
            if limits is None:
                limits = probe()
                self._write(key, limits)
            self._known[key] = limits
            return limits

    def _read(self, key: str) -> RuntimeLimits | None:
        try:
            limits = RuntimeLimits.model_validate_json((self._folder / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None
        return limits if _is_fresh(limits) and _is_only_ours(self._folder) else None

    def _write(self, key: str, limits: RuntimeLimits) -> None:
        if not all(finding.is_certain for finding in limits.findings.values()):
            return
        with suppress(OSError):
            self._folder.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
            if not _is_only_ours(self._folder):
                return
            self._remove_old()
            descriptor, aside = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(descriptor, "w") as file:
                file.write(limits.model_dump_json(indent=2))
            os.replace(aside, self._folder / f"{key}.json")

    def _remove_old(self) -> None:
        oldest = (datetime.now(UTC) - _LIFE).timestamp()
        for path in self._folder.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def default_folder() -> Path:
    """Return the folder in this user's caches."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "sandbox-limit-probes"


def _is_fresh(limits: RuntimeLimits) -> bool:
    return timedelta() <= datetime.now(UTC) - limits.found < _LIFE


def _is_only_ours(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022


def _key(client: DockerClient, runtime: str) -> str:
    """Return a digest of everything that the findings depend on."""
    with translate_failures("asking what it is"):
        # Podman invents a new ID for every answer.
        info, identity = client.info(), ("Name", "DockerRootDir") if is_podman(client) else ("ID",)
    asked = {
        "format": _FORMAT,
        "probes": _digest_of_probes(),
        "daemon": [
            info.get(name) for name in (*identity, "ServerVersion", "KernelVersion", "CgroupVersion", "RuncCommit")
        ],
        "runtime": [runtime, (info.get("Runtimes") or {}).get(runtime)],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _digest_of_probes() -> str:
    sources = [PROGRAM.read_bytes(), Path(__file__).with_name("runtime_probe.py").read_bytes()]
    return hashlib.sha256(b"".join(sources)).hexdigest()
