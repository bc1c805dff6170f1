"""The store: environments that were built once and are found by their key ever after.

    <root>/
    ├── wheels/<sha256>/<file name>      as they came from the index, checked
    ├── packages/<tree key>/             package trees, see `trees`
    ├── envs/<format>/<key>/
    │   ├── manifest.json                what it was made from: `Manifest`
    │   ├── files                        every file with its SHA-256
    │   ├── complete                     the marker, see `sealing`
    │   ├── used                         its time is that of the last use
    │   └── environment/                 what a box is shown, read-only: links into package trees
    ├── building/<random>/               work in progress; on the same file system, so that a rename publishes it
    ├── skeletons/                       see `skeleton`
    ├── imported/<digest>.json           see `brought_locks`
    ├── resolutions/                     see `questions`
    ├── locks/                           see `holds`
    ├── failed/<key>.json  logs/<key>.log
    └── sandbox-store                    see `signs`

Everything gets its name by one rename, when it is whole, and loses it by one rename, into `building/`, before it is
taken apart. So a process that is killed, at any moment, leaves nothing under a name that is not whole; what is left
under `building/` has an owner whose lock is gone, and the next prune removes it.

All of it may be removed while an engine works on it: an addition makes it again first.

To find an environment takes two `stat`, after it has been read once by this process.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from sandbox.environments.disk.build_folder import BuildingFolder
from sandbox.environments.disk.complete_marker import FILES, MARKER, seal, sealed_document
from sandbox.environments.disk.file_inventory import StoredFile, write_list
from sandbox.environments.disk.locks import InUse, KeyLock, UseCounts
from sandbox.environments.disk.paths import (
    close,
    default_root,
    is_read_only,
    make_root,
    take_name,
    unwritable,
    writing,
)
from sandbox.environments.disk.store_marker import SIGN
from sandbox.environments.store.failures import FailedBuild, read_failure, write_failure
from sandbox.environments.store.manifest import ENVIRONMENT_FORMAT, Manifest
from sandbox.environments.store.prune import PruneReport, prune
from sandbox.environments.store.trees import load_intact_tree
from sandbox.environments.store.verify import VerifyReport, verify
from sandbox.errors import BuildFailed, EnvironmentUnavailable, SpecError, StoreUnwritable

__all__ = ["BuildingFolder", "PruneReport", "Store", "StoredEnvironment", "VerifyReport"]

DOCUMENT: Final = "manifest.json"
CONTENT: Final = "environment"
USED: Final = "used"
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_PREFIX: Final = re.compile(r"[0-9a-f]{1,64}")
_REMEMBERED: Final = 1024
_TOUCHED_EVERY_S: Final = 60.0
_PRUNE_PATIENCE_S = 10.0
_SHOWN: Final = ("wheels", "packages", "envs", f"envs/{ENVIRONMENT_FORMAT}", "building")
_CLOSED: Final = ("skeletons", "resolutions", "locks", "failed", "logs")


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """An environment that is there, and whole."""

    key: str
    home: Path
    """The folder in the store."""
    manifest: Manifest

    @property
    def folder(self) -> Path:
        """The folder that a box is shown."""
        return self.home / CONTENT

    @property
    def last_used(self) -> float:
        """When, in seconds since the epoch."""
        try:
            return (self.home / USED).stat().st_mtime
        except FileNotFoundError:
            return 0.0


@dataclass(frozen=True, slots=True)
class _Remembered:
    identity: tuple[int, int, int]
    environment: StoredEnvironment


class Store:
    """A store; any number of these, in any number of processes, may work on the same folder."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).absolute()
        self._make()
        self.wheels = self.root / "wheels"
        self.packages = self.root / "packages"
        self.environments = self.root / "envs" / str(ENVIRONMENT_FORMAT)
        self.building = self.root / "building"
        self.skeletons = self.root / "skeletons"
        self.resolutions = self.root / "resolutions"
        self.locks = self.root / "locks"
        self.failed = self.root / "failed"
        self.logs = self.root / "logs"
        self._remembered: dict[str, _Remembered] = {}
        self._touched: dict[str, float] = {}
        self._uses = UseCounts()

    def restore(self) -> bool:
        """Make it again, as when it was opened, if it or a part of it has been removed since; whether that was so."""
        if all((self.root / name).exists() for name in (SIGN, *_SHOWN, *_CLOSED)):
            return False
        self._make()
        return True

    def _make(self) -> None:
        make_root(self.root, shown=_SHOWN, closed=_CLOSED)

    def find(self, key: str) -> StoredEnvironment | None:
        """The environment of that key, if it is there and whole."""
        home = self._home(key)
        try:
            status = os.stat(home / DOCUMENT)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None or not _has_content(home):
            self._remembered.pop(key, None)
            return None
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._remembered.get(key)
        if known is not None and known.identity == identity:
            return known.environment
        environment = self._read(home, key)
        if environment is not None:
            self._remember(key, _Remembered(identity, environment))
        return environment

    def _remember(self, key: str, what: _Remembered) -> None:
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = what

    def _read(self, home: Path, key: str) -> StoredEnvironment | None:
        if not _has_content(home):
            return None
        data = sealed_document(home, document=DOCUMENT, content=CONTENT)
        try:
            manifest = Manifest.model_validate_json(data) if data is not None else None
        except ValidationError:
            return None
        if manifest is None or manifest.key != key:
            return None
        return StoredEnvironment(key, home, manifest)

    def _home(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise SpecError(f"{key[:80]!r} is not the key of an environment", remedy="`sandbox env list` names them")
        return self.environments / key

    def use(self, key: str) -> InUse | None:
        """Keep the environment from being pruned, by anyone, until that is given back; None when it is not there.

        Also marks it as used now. An environment that was found is not safe before this has said so.
        """
        use = self._kept(key)
        if use is not None:
            self.touch(key)
        return use

    def _kept(self, key: str) -> InUse | None:
        """The same without marking it."""
        deadline = time.monotonic() + _PRUNE_PATIENCE_S
        while self.find(key) is not None:
            use = self._held(key)
            if use is None:  # a prune has just removed it, or is about to decide, which takes microseconds
                if time.monotonic() > deadline:
                    raise EnvironmentUnavailable(f"{key[:12]} is being pruned", remedy="end that prune, if it hangs")
                time.sleep(0.001)
                continue
            if self.find(key) is not None:
                return use
            use.release()
        return None

    def _held(self, key: str) -> InUse | None:
        """Hold its lock; where none can be made because the disk is read-only, no process can prune it either."""
        try:
            return self._uses.use(self.locks / f"{key}.use")
        except OSError as error:
            if is_read_only(error):
                return InUse(lambda: None)
            raise unwritable(f"the lock of the environment {key[:12]}", error) from error

    def touch(self, key: str) -> None:
        """Mark it as used now, if that can be written; on disk at most once a minute."""
        now = time.monotonic()
        if now - self._touched.get(key, -_TOUCHED_EVERY_S) < _TOUCHED_EVERY_S:
            return
        self._touched[key] = now
        try:
            os.utime(self._home(key) / USED)
        except OSError:  # the environment is gone, or the disk is read-only
            del self._touched[key]

    def lock(self, key: str) -> KeyLock:
        """The right to build that key."""
        self._home(key)
        return KeyLock(self.locks / f"{key}.build", what=f"the environment {key[:12]}")

    def new_building_folder(self) -> BuildingFolder:
        """A folder to work in, removed at the end of its `with`; until then nothing that the work needs is pruned."""
        return BuildingFolder(self.building / secrets.token_hex(16), locks=self.locks)

    def publish(
        self,
        building: BuildingFolder,
        manifest: Manifest,
        *,
        files: Sequence[StoredFile],
        closed: Collection[str] = frozenset(),
    ) -> StoredEnvironment:
        """Give `building/environment` its place, sealed and read-only; where another was faster, that one is taken.

        `closed` are paths of files that are read-only already, as those of package trees are.
        """
        listing = write_list(files)
        if hashlib.sha256(listing.encode()).hexdigest() != manifest.files:
            raise ValueError("the manifest is of other files")
        home, aside = self._home(manifest.key), building.folder / "published"
        with writing(f"the environment {manifest.key[:12]}"):
            aside.mkdir(mode=0o755)
            (building.folder / CONTENT).rename(aside / CONTENT)
            close(aside / CONTENT, but=closed)
            (aside / USED).touch(mode=0o644)
            seal(aside, document=DOCUMENT, data=manifest.model_dump_json(indent=1).encode(), files=listing)
            aside.chmod(0o755)
            while not take_name(aside, home):
                if (there := self.find(manifest.key)) is not None:
                    return there
                self.discard(home)
        self.forget_failure(manifest.key)
        return StoredEnvironment(manifest.key, home, manifest)

    def discard(self, place: Path) -> None:
        """Take a name away from what is not whole, or no longer wanted, and remove it."""
        with self.aside() as aside, suppress(FileNotFoundError):
            place.rename(aside.folder / place.name)

    def aside(self) -> BuildingFolder:
        """A folder to take things apart in; unlike one for building, it keeps nothing else from being pruned."""
        return BuildingFolder(self.building / secrets.token_hex(16), locks=self.locks, is_for_building=False)

    def package_folder(self, key: str) -> Path:
        """Where the package tree of that key is, or would be."""
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key[:80]!r} is not the key of a package tree")
        return self.packages / key

    def has_tree(self, key: str) -> bool:
        """Whether that package tree has its name already; `load_tree` says whether it is whole."""
        return (self.package_folder(key) / MARKER).is_file()

    def list(self) -> Sequence[StoredEnvironment]:
        """All that are there and whole, the last used first."""
        found = [
            environment for key in self.environment_keys() if (environment := self._read(self.environments / key, key))
        ]
        return sorted(found, key=lambda environment: -environment.last_used)

    def environment_keys(self) -> Iterator[str]:
        """The names of all environments, whole or not."""
        return (name for name in os.listdir(self.environments) if _KEY.fullmatch(name))

    def broken_keys(self) -> Sequence[str]:
        """Return the keys of incomplete environments: no box uses them, and the next build replaces them."""
        return sorted(key for key in self.environment_keys() if self._is_broken(key))

    def _is_broken(self, key: str) -> bool:
        """Whether it is there, which it may not be any more, and is not whole."""
        home = self.environments / key
        return self._read(home, key) is None and os.path.lexists(home)

    def show(self, prefix: str) -> StoredEnvironment:
        """Return the one environment whose key begins like that; `SpecError` if there is not exactly one."""
        keys = self._keys_like(prefix)
        found = [environment for key in keys if (environment := self._read(self.environments / key, key))]
        if len(found) == 1:
            return found[0]
        if not found:
            raise SpecError(f"no environment has a key like {prefix[:80]!r}", remedy="`sandbox env list` names them")
        named = ", ".join(environment.key[:16] for environment in found[:5])
        raise SpecError(f"{len(found)} environments begin with {prefix!r}: {named}", remedy="give more of the key")

    def _keys_like(self, prefix: str) -> Sequence[str]:
        """The names of all environments, whole or not, that begin like that."""
        is_one = _PREFIX.fullmatch(prefix) is not None
        return sorted(key for key in self.environment_keys() if is_one and key.startswith(prefix))

    def verify(self, prefix: str) -> VerifyReport:
        """Read every file of that environment again; no prune removes it meanwhile, and it does not count as used. If
        something differs, changed package trees are dropped, so that nothing new is made from them.
        """
        keys = self._keys_like(prefix)
        if len(keys) == 1 and self._is_broken(keys[0]):
            return VerifyReport(keys[0], files=0, is_whole=False)
        environment = self.show(prefix)
        report = self._verified(environment)
        if report is None:
            raise SpecError(f"the environment {environment.key[:12]} has been removed meanwhile")
        return report

    def verify_all(self) -> Sequence[VerifyReport]:
        """The same for all that are there, whole or not; what is removed before its turn is left out."""
        found = [report for environment in self.list() if (report := self._verified(environment))]
        return [*found, *(VerifyReport(key, files=0, is_whole=False) for key in self.broken_keys())]

    def _verified(self, environment: StoredEnvironment) -> VerifyReport | None:
        use = self._kept(environment.key)
        if use is None:
            return None
        with use:
            return self._looked_through(environment)

    def _looked_through(self, environment: StoredEnvironment) -> VerifyReport:
        try:
            digest = environment.manifest.files
            report = verify(environment.key, environment.folder, environment.home / FILES, digest=digest)
        except OSError as error:  # published files are readable by all
            report = VerifyReport(environment.key, files=0, changed=(str(error.filename or CONTENT),))
        if not report.is_intact:
            self._drop_tampered_trees(environment.manifest.trees)
        return report

    def _drop_tampered_trees(self, keys: Sequence[str]) -> None:
        with suppress(OSError, StoreUnwritable):  # a store that cannot be written to is still looked at
            for key in keys:
                load_intact_tree(self, key)

    def prune(
        self,
        keys: Collection[str] = (),
        *,
        older_than_s: float | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Remove the environments of these keys and those not used for that long, then the least recently used until
        the rest fits, and garbage.

        Imported locks go by the same age and size, also when nothing was built from them. Garbage is all that none of
        these needs: package trees, wheels, leftovers of dead builders, and outdated files.
        """
        return prune(self, keys, older_than_s=older_than_s, max_bytes=max_bytes, dry_run=dry_run)

    def remember_failure(self, key: str, error: BuildFailed, *, means: str = "", ttl_s: float) -> FailedBuild:
        """Answer with this for a while, instead of trying again by the same means."""
        self._home(key)
        return write_failure(self.failed, self.logs, error, key=key, means=means, ttl_s=ttl_s)

    def failure(self, key: str, *, means: str = "") -> FailedBuild | None:
        """Why that key could not be had by those means a short while ago."""
        self._home(key)
        return read_failure(self.failed / f"{key}.json", means=means)

    def forget_failure(self, key: str) -> None:
        """Forget the failure: the build works, or may be tried again."""
        (self.failed / f"{key}.json").unlink(missing_ok=True)


def _has_content(home: Path) -> bool:
    """Whether what a box is shown is there, and no link to elsewhere."""
    try:
        return stat.S_ISDIR(os.lstat(home / CONTENT).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
