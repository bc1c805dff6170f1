"""From an index to folders: wheels are downloaded by the engine and unpacked in a box, both at the same time.

    engine    downloads, checks against the lock, and only then shows a wheel in a folder that the box may read
    box       has no network; is opened before the first wheel is there (see `workspace`), unpacks each as it comes, the
              largest of those that are there first, and compiles what all of them hold

So little is left to unpack when the last wheel has come. A build may take as long to resolve and to download as to
unpack: a box whose time was up before it had all wheels is followed by one that has them.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sandbox.environments.build_jobs import JobEnd, refuse_lost
from sandbox.environments.builds.plan import Plan
from sandbox.environments.builds.wheels import fetch_wheels
from sandbox.environments.builds.workspace import BuildWorkspace
from sandbox.environments.disk.paths import is_full, writing
from sandbox.environments.indexes.client import IndexClient
from sandbox.environments.indexes.proxy import open_index_proxy
from sandbox.environments.lock import LockedPackage
from sandbox.environments.progress import OnProgress, Progress
from sandbox.errors import BuildFailed, StoreUnwritable
from sandbox.threads import in_own_thread

_ATTEMPTS: Final = 2
_MAX_SAID: Final = 2000


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The unpacked wheels."""

    folder: Path
    """Has a folder for each package, by its name; a box left it, and it is trusted in nothing."""
    wheels: Mapping[str, Path]
    """Where each wheel lies in the store, by its SHA-256."""


@dataclass(slots=True)
class Unpacking:
    """The wheels of one build that must be unpacked; `store` is where wheels are kept."""

    plan: Plan
    packages: Sequence[LockedPackage]
    workspace: BuildWorkspace
    store: Path
    tell: OnProgress
    _over: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> Unpacked:
        """Raises `BuildFailed` or `IndexUnavailable`; the box is gone when this ends, however it ends."""
        meter = Meter(len(self.packages), self.tell, of=len(self.plan.packages))
        fetching = asyncio.create_task(self._fetched(meter))
        boxed = asyncio.create_task(self._in_boxes(meter, fetching))
        try:
            wheels, folder = await asyncio.gather(fetching, boxed)
        finally:
            self._over.set()
            if not boxed.cancelling():  # a second time would interrupt the closing of its box
                boxed.cancel()
            fetching.cancel()
            await asyncio.wait({boxed, fetching})
        return Unpacked(folder, wheels)

    async def _fetched(self, meter: Meter) -> Mapping[str, Path]:
        """The wheels, when all of them are here and shown."""
        async with open_index_proxy(self.plan.means.settings, self.workspace.building.folder) as proxy:
            wheels = await in_own_thread(partial(self._fetch, proxy.path))
        meter.begin()
        return wheels

    def _fetch(self, proxy: Path) -> Mapping[str, Path]:
        means = self.plan.means
        return fetch_wheels(
            sorted(self.packages, key=lambda package: package.size or 0),
            client=IndexClient(means.settings, proxy),
            origins=self.plan.resolution.origins,
            store=self.store,
            on_progress=self._tell_download,
            on_wheel=self._show,
            within_s=means.policy.limits.wall,
        )

    def _tell_download(self, name: str, done: int, total: int | None) -> None:
        """A thread cannot be cancelled: the error that this raises after the build's end stops all downloads."""
        if self._over.is_set():
            raise _Abandoned
        self.tell(Progress("download", name, done, total))

    def _show(self, wheel: Path) -> None:
        with writing(f"the environment {self.plan.key[:12]}"):
            os.link(wheel, self.workspace.wheels / wheel.name)

    async def _in_boxes(self, meter: Meter, fetching: asyncio.Task[Mapping[str, Path]]) -> Path:
        """Return the folder of the box that unpacked all wheels."""
        for _ in range(_ATTEMPTS):
            has_all = fetching.done()
            folder, end = await self.workspace.unpack(self._largest_first, hear=meter)
            if has_all or not end.is_late:
                break
            await asyncio.wait({fetching})
        refuse_failed(end)
        return folder

    @property
    def _largest_first(self) -> Sequence[LockedPackage]:
        return sorted(self.packages, key=lambda package: package.size or 0, reverse=True)


class _Abandoned(Exception):
    """The build has ended, and its downloads are not needed."""


def counted(packages: int, *, of: int = 0) -> str:
    """Return the number of packages, among all of an environment, in words."""
    if packages < of:
        return f"{packages} of {of} packages"
    return "1 package" if packages == 1 else f"{packages} packages"


class Meter:
    """Makes progress of what the box says of how far it is. That is of no consequence, so it may be believed.

    Stages are reported one after the other: nothing is reported as unpacked before all is downloaded.
    """

    def __init__(self, packages: int, tell: OnProgress, *, of: int = 0) -> None:
        self._report = tell
        self._packages = packages
        self._of = of
        self._unpacked = self._compiled = self._modules = 0
        self._has_begun = False

    def begin(self) -> None:
        """All wheels are there."""
        if not self._has_begun:
            self._has_begun = True
            self._report(Progress("unpack", counted(self._packages, of=self._of), self._unpacked, self._packages))

    def __call__(self, line: str) -> None:
        word, _, what = line.partition(" ")
        count = int(what) if re.fullmatch(r"[0-9]{1,9}", what) else 0
        if word == "unpacked":
            self._unpacked = min(self._unpacked + 1, self._packages)
            if self._has_begun:
                self._report(Progress("unpack", what, self._unpacked, self._packages))
        elif word == "compile":
            self._modules = count
            self._tell_compiled()
        elif word == "compiled":
            self._compiled = min(self._compiled + count, self._modules)
            self._tell_compiled()

    def _tell_compiled(self) -> None:
        self.begin()
        text = "1 module" if self._modules == 1 else f"{self._modules} modules"
        self._report(Progress("compile", text, self._compiled, self._modules))


def refuse_failed(end: JobEnd) -> None:
    """Raise what the box says that went wrong, or what went wrong with it."""
    refuse_lost(end)
    if end.problem is not None or not isinstance(end.value, dict):
        message = f"the wheels could not be unpacked: {end.problem} {end.said[-_MAX_SAID:]}".rstrip()
        raise _failure(message, log=end.said)
    failed = end.value.get("failed")
    if failed and isinstance(failed, dict):
        said = "; ".join(f"{name}: {' '.join(str(text).split())[-_MAX_SAID:]}" for name, text in failed.items())
        log = "\n\n".join(f"{name}:\n{text}" for name, text in failed.items())
        why = f"{end.limit}: " if end.limit else ""
        raise _failure(f"the wheels could not be unpacked: {why}{said}", log=log)


def _failure(message: str, *, log: str) -> BuildFailed:
    """Return the error; a job writes to the store's disk, so only that disk can be full."""
    if is_full(message):
        return StoreUnwritable(message, remedy="make room, for example with `sandbox env prune`")
    return BuildFailed(message, log=log)
