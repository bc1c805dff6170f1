"""Holds: who may build, and who still uses, across threads, processes, and containers that share the folder.

Both are `flock` on a file under `locks/`. The kernel keeps such a lock for an open file description and drops it when
the last descriptor of that is closed, by whatever end the process comes to: a dead owner's lock is gone with it, there
is nothing to take over and no process number to mistake. Each hold opens a description of its own, so two threads of a
process exclude each other like two processes, and any thread may release. (`filelock` has no shared locks, does not
notice that a lock file was removed, and needs the right to write.) Descriptors close on `exec`, so what an engine
starts inherits no hold.

A lock file may be removed, but only by its holder. A process that then locks the removed file finds that its name leads
elsewhere, and tries again.

Waiting is polling, at short and then longer intervals: a waiting `flock` would take a thread that nothing can cancel.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import Lock as ThreadLock
from typing import Final

from sandbox.environments.disk.paths import is_read_only, writing
from sandbox.errors import EnvironmentUnavailable

_FIRST_POLL_S: Final = 0.002
_MAX_POLL_S: Final = 0.05
_MAX_BYTES: Final = 4096
_SAFELY: Final = os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a key."""

    pid: int
    started: float
    """When that process started, in seconds since the epoch."""
    host: str
    since: float
    """When it took the hold, in seconds since the epoch."""

    def __str__(self) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self.since))
        place = "" if self.host == socket.gethostname() else f" on {self.host}"
        return f"process {self.pid}{place} since {clock}"


@cache
def _started(pid: int) -> float:
    import psutil

    return float(psutil.Process(pid).create_time())


def lock_file(path: Path, *, shared: bool = False) -> int | None:
    """Lock that file, made if need be, without waiting; the answer is its descriptor, or None when others have it."""
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _leads_to(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Also where nothing can be written, if it is there: a lock needs no right to write."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o600)
    except OSError as error:
        if not is_read_only(error):
            raise
        try:
            return os.open(path, os.O_RDONLY | _SAFELY)
        except FileNotFoundError:
            raise error from None


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def locked_file(path: Path, *, shared: bool = False) -> Iterator[bool]:
    """Lock the file for the length of a block; the value says whether that succeeded."""
    descriptor = lock_file(path, shared=shared)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


class KeyLock:
    """The right to build one key. An object is one attempt to get it; it is not taken twice."""

    def __init__(self, path: Path, *, what: str) -> None:
        self._path = path
        self._what = what
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        if self._descriptor is not None:
            raise RuntimeError(f"{self._what} is locked by this very object")
        with writing(f"the lock of {self._what}"):
            self._descriptor = lock_file(self._path)
        if self._descriptor is None:
            return False
        record = Owner(pid := os.getpid(), _started(pid), socket.gethostname(), time.time())
        with suppress(OSError):  # on a full disk it is held without saying by whom
            os.truncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(asdict(record)).encode(), 0)
        return True

    async def acquire(
        self, *, timeout_s: float | None = None, on_wait: Callable[[Owner | None], None] | None = None
    ) -> None:
        """Wait until the lock is free. `on_wait` is called with the holder, at first and at every change.

        Raises `EnvironmentUnavailable` when it takes too long. Cancelled, it holds nothing.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        told: list[Owner | None] = []
        pause = _FIRST_POLL_S
        while not self.try_acquire():
            owner = self.owner()
            if on_wait is not None and told[-1:] != [owner] and (owner or not told):
                told.append(owner)
                on_wait(owner)
            if deadline is not None and time.monotonic() >= deadline:
                raise self._too_late(owner, timeout_s)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_POLL_S)

    def _too_late(self, owner: Owner | None, timeout_s: float | None) -> EnvironmentUnavailable:
        who = str(owner) if owner else "a process that did not say its name"
        message = f"{self._what} is being built by {who}, and was not done after {timeout_s:g} s"
        return EnvironmentUnavailable(message, remedy="wait for it, or end that process: nothing of it is left then")

    def release(self) -> None:
        """Give it back; from any thread, and without harm when it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.truncate(descriptor, 0)
            os.close(descriptor)

    def owner(self) -> Owner | None:
        """Return the holder, as far as it is known."""
        try:
            with self._path.open("rb") as file:
                return Owner(**json.loads(file.read(_MAX_BYTES)))
        except (OSError, ValueError, TypeError):
            return None

    @asynccontextmanager
    async def held(
        self, *, timeout_s: float | None = None, on_wait: Callable[[Owner | None], None] | None = None
    ) -> AsyncIterator[None]:
        """Have it for the length of a block."""
        await self.acquire(timeout_s=timeout_s, on_wait=on_wait)
        try:
            yield
        finally:
            self.release()


class InUse:
    """A hold that keeps an environment from being pruned; given back once, by `release` or at the end of a `with`."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Give the hold back; any thread may do so."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> InUse:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class UseCounts:
    """All uses of one engine: however many boxes use an environment, it takes one descriptor."""

    def __init__(self) -> None:
        self._guard = ThreadLock()
        self._held: dict[Path, tuple[int, int]] = {}

    def use(self, path: Path) -> InUse | None:
        """Count one more; None when the environment is being removed at this moment."""
        with self._guard:
            descriptor, count = self._held.get(path, (None, 0))
            if descriptor is None:
                descriptor = lock_file(path, shared=True)
            if descriptor is None:
                return None
            self._held[path] = (descriptor, count + 1)
        return InUse(lambda: self._drop(path))

    def _drop(self, path: Path) -> None:
        with self._guard:
            descriptor, count = self._held.pop(path)
            if count > 1:
                self._held[path] = (descriptor, count - 1)
            else:
                os.close(descriptor)
