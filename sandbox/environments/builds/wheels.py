"""The wheels of a lock, downloaded by the engine: bytes that are checked against the lock, never opened here.

::

    <store>/<sha256>/<file name>     one wheel, read-only, and hashed again before each use
    <store>/.partial/<random>        a download under way, or what a killed one left: swept an hour after its last byte

Where a wheel comes from does not matter, since its digest was locked: the address that the resolution saw is tried
first, then folders of wheels. A wheel appears by rename, whole or not at all; of two
processes that fetch the same one the later wins, with the same bytes. Only what the network did wrong is tried again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

from sandbox.environments.builds.plan import Plan
from sandbox.environments.disk.paths import CLOSED, make_folder, make_folders, passable
from sandbox.environments.indexes.client import Absent, Fault, IndexClient, Reply
from sandbox.environments.indexes.settings import local_path, redacted
from sandbox.environments.lock import LockedPackage
from sandbox.environments.store.store import Store
from sandbox.environments.store.trees import load_tree
from sandbox.errors import BuildFailed, IndexRefused, IndexUnavailable, StoreUnwritable, WheelGone

OnDownload = Callable[[str, int, int | None], None]
"""Called with a package's name, how many of its bytes are here, and how many there will be; from several threads."""

OnWheel = Callable[[Path], None]
"""Called with the path of a wheel as soon as it is there and checked; from several threads."""

MAX_AT_ONCE: Final = 8
STALE_S: Final = 3600.0
_AGAIN: Final = "`sandbox env lock --refresh`"
_PARTIAL: Final = ".partial"
_ATTEMPTS: Final = 4
_MAX_S: Final = 3600.0
_MAX_BYTES: Final = 16 << 30
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class _WrongBytes(Exception):
    """The downloaded bytes are not those that were locked; the text says in which way."""


class _Stopped(Exception):
    """Another download failed: this one is not needed any more."""


def fetch_wheels(
    packages: Sequence[LockedPackage],
    *,
    client: IndexClient,
    origins: Mapping[str, str],
    store: Path,
    on_progress: OnDownload | None = None,
    on_wheel: OnWheel = lambda _: None,
    within_s: float = _MAX_S,
) -> dict[str, Path]:
    """Where each wheel lies, by its SHA-256; those that are missing are downloaded, a few at a time, the first first.

    Raises `IndexUnavailable` if an index that may have a wheel does not answer, or not in time, `BuildFailed` if none
    has it, if what they have is not what was locked, or if there is no room. An error of `on_progress` or
    `on_wheel` ends all downloads, too. Wheels that were finished by then stay.
    """
    wanted = {package.sha256: package for package in packages}
    ends = time.monotonic() + within_s
    download = _Download(client, origins=origins, store=store, tell=on_progress or _ignore_download, ends=ends)
    with _named_disk_faults(store):
        download.prepare()
    try:
        return _all_of(download, list(wanted.values()), on_wheel)
    finally:
        client.close()


def without_address(plan: Plan, store: Store) -> list[LockedPackage]:
    """Return the packages that must be downloaded, and of which nothing says where they are."""
    folders = [folder for link in plan.means.settings.find_links if (folder := local_path(link)) is not None]
    return [
        package
        for package in plan.packages
        if package.sha256 not in plan.resolution.origins
        and load_tree(store, plan.tree_key(package)) is None
        and not (store.wheels / package.sha256 / package.wheel).exists()
        and not any((folder / package.wheel).exists() for folder in folders)
    ]


def _all_of(download: _Download, packages: list[LockedPackage], on_wheel: OnWheel) -> dict[str, Path]:
    def one(package: LockedPackage) -> Path:
        place = download.one(package)
        on_wheel(place)
        return place

    with ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="wheel") as threads:
        pending = {threads.submit(one, package): package for package in packages}
        try:
            wait(pending, return_when=FIRST_EXCEPTION)
            failed = [error for future in pending if future.done() and (error := future.exception())]
            if failed:
                raise failed[0]
            return {package.sha256: future.result() for future, package in pending.items()}
        finally:
            download.stop.set()
            threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Attempts:
    """The failed attempts to get one wheel, and where."""

    faults: list[tuple[str, Fault]] = field(default_factory=list)
    wrong: list[tuple[str, _WrongBytes]] = field(default_factory=list)


@dataclass(slots=True)
class _Download:
    """The state that the downloads of one lock share."""

    client: IndexClient
    origins: Mapping[str, str]
    store: Path
    tell: OnDownload
    ends: float
    """When the time for all of them is over."""
    stop: threading.Event = field(default_factory=threading.Event)

    def prepare(self) -> None:
        """Make the folders, and sweep what killed downloads left."""
        folder = self.store / _PARTIAL
        make_folders(self.store, passable())
        make_folder(folder, CLOSED)
        for leftover in folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - leftover.stat().st_mtime > STALE_S:
                    leftover.unlink()

    def one(self, package: LockedPackage) -> Path:
        """The wheel's path in the store."""
        with _named_disk_faults(self.store):
            place = self.store / package.sha256 / package.wheel
            if _is_intact(place, package):
                return place
            attempts_made = _Attempts()
            for address in self._addresses(package):
                try:
                    return self._fetch(package, address, place)
                except Absent:
                    continue
                except Fault as fault:
                    attempts_made.faults.append((address, fault))
                except _WrongBytes as why:
                    attempts_made.wrong.append((address, why))
            raise self._explained(package, attempts_made)

    def _addresses(self, package: LockedPackage) -> Iterator[str]:
        """Where it may be: where the resolution saw it, then in folders of wheels."""
        origin = self.origins.get(package.sha256)
        if origin is not None:
            yield origin
        for link in self.client.settings.find_links:
            folder = local_path(link)
            if folder is not None:
                yield str(folder / package.wheel)

    def _fetch(self, package: LockedPackage, address: str, place: Path) -> Path:
        """Download it from there, again if that breaks off."""
        import tenacity

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Fault) and error.retryable),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=2),
            reraise=True,
        )
        return attempts(self._fetch_once, package, address, place)

    def _fetch_once(self, package: LockedPackage, address: str, place: Path) -> Path:
        descriptor, name = tempfile.mkstemp(dir=self.store / _PARTIAL)
        try:
            left_s = self.ends - time.monotonic()
            with (
                os.fdopen(descriptor, "wb") as file,
                self.client.open(address, within_s=left_s) as reply,
            ):
                self._receive(package, reply, file.write)
            os.chmod(name, 0o444)
            make_folder(place.parent, passable())
            os.replace(name, place)
        finally:
            Path(name).unlink(missing_ok=True)
        return place

    def _receive(self, package: LockedPackage, reply: Reply, write: Callable[[bytes], object]) -> None:
        total = package.size if package.size is not None else reply.length
        digest, done = sha256(), 0
        self.tell(package.name, 0, total)
        for piece in reply.pieces:
            if self.stop.is_set():
                raise _Stopped
            if time.monotonic() > self.ends:
                raise Fault("it sends too slowly for the time that a build may take")
            done += len(piece)
            if done > (most := _MAX_BYTES if package.size is None else package.size):
                raise _WrongBytes(f"it is longer than {most} bytes")
            digest.update(piece)
            write(piece)
            self.tell(package.name, done, total)
        if digest.hexdigest() != package.sha256:
            raise _WrongBytes(f"its SHA-256 is not {package.sha256}")

    def _explained(self, package: LockedPackage, attempts_made: _Attempts) -> Exception:
        """Return why the wheel is missing: wrong bytes, an index that is down, or no index has it."""
        if attempts_made.wrong:
            place, why = attempts_made.wrong[0]
            return _replaced(package, place, str(why))
        if attempts_made.faults:
            place, fault = attempts_made.faults[0]
            message = f"{package.wheel} could not be downloaded from {redacted(place)}: {fault.reason}"
            if fault.remedy is not None:
                return IndexRefused(message, remedy=fault.remedy)
            return IndexUnavailable(message, remedy="try again later, or keep it in a folder of wheels")
        if self.client.settings.offline:
            return BuildFailed(
                f"{package.wheel} is neither in the store nor in a folder of wheels, and no index is asked offline",
                remedy="build once with the network, or put the wheel into a folder of wheels",
            )
        return WheelGone(f"no index has {package.wheel} any more", remedy=f"resolve again, with {_AGAIN}")


def _replaced(package: LockedPackage, place: str, why: str) -> BuildFailed:
    return BuildFailed(
        f"{package.wheel} at {redacted(place)} is not the file that was locked: {why}",
        remedy=f"resolve again, with {_AGAIN}, if its authors replaced it; if they did not, an attacker may have",
    )


def _is_intact(place: Path, package: LockedPackage) -> bool:
    """Whether a plain file with exactly the locked bytes is there already."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        return file_digest(file, "sha256").hexdigest() == package.sha256


@contextlib.contextmanager
def _named_disk_faults(store: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if problem.errno in _NO_ROOM:
            raise StoreUnwritable(
                f"there is no room left for wheels in {store}", remedy="free some, for example by `sandbox env prune`"
            ) from None
        if problem.errno not in _NOT_OURS:
            raise
        raise StoreUnwritable(
            f"wheels cannot be kept in {store}: {problem.strerror}", remedy="let the engine's user write there"
        ) from None


def _ignore_download(_name: str, _done: int, _total: int | None) -> None:
    """Take a report that no caller asked for."""
