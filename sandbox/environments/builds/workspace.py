"""A workspace: what a build works with, which can be there before it is known what is built.

    folder      below the store's `building/`, removed with the workspace, whatever is still in it
    skeleton    what the environment begins as; as much of it as unpacking takes is there before the box is opened, and
                virtualenv makes the rest meanwhile
    wheels      where the engine shows each wheel, and the order: what is to be unpacked
    box         sees the skeleton and the wheels, and has no network; it may be opened while requirements are resolved,
                and waits for its order

A box that waits runs only the engine's own program, which reads no foreign bytes before it has its order.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from sandbox.environments.build_context import BuildContext
from sandbox.environments.build_jobs import BUILD, Job, JobEnd, JobRunner, open_folder
from sandbox.environments.disk.build_folder import BuildingFolder
from sandbox.environments.disk.paths import make_folder, writing
from sandbox.environments.interpreters.skeleton import begin_skeleton, finish_skeleton, site_folder
from sandbox.environments.lock import LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.store.store import CONTENT, Store
from sandbox.environments.tasks import gone, to_its_end
from sandbox.threads import in_own_thread

ENVIRONMENT: Final = "/environment"
"""Where a box sees an environment; bytecode and scripts name it."""
_ORDER: Final = "order.json"
"""Tells runners/builder/unpack.py what to unpack; no wheel is called so."""
_SEEN: Final = 0o755
"""The mode of folders that a box sees, whatever user it runs as."""
Keep = Callable[[], Awaitable[None]]
"""Sees to it that the store keeps a skeleton for the interpreter."""


class BuildWorkspace:
    """The folder, skeleton and box of one build; used in `open_workspace`."""

    def __init__(
        self, means: BuildContext, *, building: BuildingFolder, store: Store, jobs: JobRunner, keep_skeleton: Keep
    ) -> None:
        self.means = means
        self.building = building
        self._store = store
        self._jobs = jobs
        self._keep_skeleton = keep_skeleton
        self._ahead: asyncio.Task[None] | None = None
        self._skeleton_lock = asyncio.Lock()
        self._has_skeleton = False
        self._boxes = 0
        self._box: asyncio.Task[tuple[Path, JobEnd]] | None = None
        self._hear: Callable[[str], None] | None = None

    @property
    def skeleton(self) -> Path:
        """The folder that becomes the environment."""
        return self.building.folder / CONTENT

    @property
    def wheels(self) -> Path:
        """The folder of wheels that the box is shown."""
        return self.building.folder / "wheels"

    def create(self) -> None:
        """Make the folders that a box needs to be opened, and the engine to show wheels."""
        with writing("an environment"):
            make_folder(self.skeleton, _SEEN)
            begin_skeleton(self.means.interpreter, self.skeleton)
            make_folder(self.wheels, _SEEN)

    def begin(self) -> None:
        """Open the box ahead, and have the skeleton made meanwhile; errors reach the caller that uses them."""
        self._ahead = asyncio.create_task(self.add_skeleton())
        self._box = asyncio.create_task(self._boxed())

    async def add_skeleton(self) -> None:
        """Have the skeleton."""
        async with self._skeleton_lock:
            if not self._has_skeleton:
                await self._keep_skeleton()
                await to_its_end(self._finish_skeleton)
                self._has_skeleton = True

    async def unpack(self, packages: Iterable[LockedPackage], *, hear: Callable[[str], None]) -> tuple[Path, JobEnd]:
        """Have a box unpack these, in that order: the one that waits, or a new one. Where to, and how it went; the box
        is gone then. `hear` is called with each line that it prints."""
        if self._box is not None and self._box.cancelling():
            await self.cancel_box()
        box, self._box = self._box or asyncio.create_task(self._boxed()), None
        try:
            self._hear = hear
            await to_its_end(lambda: self._write_order(packages))
            await self.add_skeleton()
            return await asyncio.shield(box)
        finally:
            await gone(box)

    def give_up(self) -> None:
        """End the box that waits, because it may be long until it is used; `unpack` opens another if needed."""
        if self._box is not None and not self._box.cancelling():  # a second time would interrupt its closing
            self._box.cancel()

    async def cancel_box(self) -> None:
        """End the box that waits."""
        box, self._box = self._box, None
        try:
            if box is not None:
                await gone(box)
        finally:
            if self._ahead is not None:
                await gone(self._ahead)

    def _finish_skeleton(self) -> None:
        with writing("an environment"):
            aside = self.building.folder / "skeleton"
            finish_skeleton(self.means.interpreter, self.skeleton, kept_in=self._store.skeletons, aside=aside)

    def _write_order(self, packages: Iterable[LockedPackage]) -> None:
        aside = self.building.folder / _ORDER
        listed = [[each.name, f"{each.name}=={each.version}", each.wheel] for each in packages]
        with writing("an environment"):
            aside.write_text(json.dumps(listed))
            aside.chmod(0o444)
            os.replace(aside, self.wheels / _ORDER)

    async def _boxed(self) -> tuple[Path, JobEnd]:
        self._boxes += 1
        folder = await in_own_thread(partial(open_folder, self.building.folder / f"unpacked-{self._boxes}"))
        return folder, await self._jobs.run(self._job(folder))

    def _heard(self, line: str) -> None:
        if self._hear is not None:
            self._hear(line)

    def _job(self, folder: Path) -> Job:
        means, site = self.means, site_folder(self.means.interpreter)
        skeleton = Environment(
            **{name: getattr(means.environment, name) for name in ("key", "lock_digest", "python", "version")},
            folders=means.environment.folders,
            hidden=means.environment.hidden,
            installed=self.skeleton,
            site=site,
        )
        return Job(
            program="unpack",
            entry="unpack",
            arguments={"folder": BUILD, "seen_at": f"{ENVIRONMENT}/{site}", "workers": means.policy.limits.cpus},
            policy=means.policy,
            interpreter=skeleton,
            folder=folder,
            disk=means.disk,
            readable={"/uv": means.uv, "/wheels": self.wheels},
            tenant=means.tenant,
            on_line=self._heard,
        )


@asynccontextmanager
async def open_workspace(
    means: BuildContext, *, store: Store, jobs: JobRunner, keep_skeleton: Keep
) -> AsyncIterator[BuildWorkspace]:
    """A workspace with nothing on it; when this ends, its box is gone, and so is its folder."""
    with store.new_building_folder() as building:
        workspace = BuildWorkspace(means, building=building, store=store, jobs=jobs, keep_skeleton=keep_skeleton)
        workspace.create()
        try:
            yield workspace
        finally:
            await workspace.cancel_box()
