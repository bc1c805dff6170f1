"""The environments of one engine: resolved and built for its calls, and turned into images for containers.

The package `environments` resolves and builds, in boxes of this host (see `build_jobs`). Containers bring a Python of
their own, so requirements are narrowed to its version. Their boxes cannot build, so builds get boxes of this host. None
of that exists before the first tool requires something. A backend that runs no tools gets made-up environments: their
requirements are checked as always, and nothing is resolved or built.

Backends that open containers get every environment as something that a container can be made from:

    nothing required     the base image alone, with its own Python
    an environment       the base image, with the environment's folder of the store shown in it, if the daemon is on
                         this machine; otherwise an image that holds the environment, made once

Both forms hold the same files at the same path. An environment is built for an interpreter of this host, whose version
must be that of the image's Python.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.backends import open_backend
from sandbox.backends.base import Backend, Daemon
from sandbox.environments import Environment, bare_environment
from sandbox.environments.progress import OnProgress
from sandbox.errors import BackendUnavailable, EnvironmentUnavailable
from sandbox.policy import Policy
from sandbox.pool.pool import Pool
from sandbox.protocols import BoxImage
from sandbox.spec import CallSpec, EnvironmentSpec
from sandbox.threads import Threads, in_own_thread
from sandbox.tools import ToolDefinition

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.environments.provider import Needs, Provider
    from sandbox.images import BaseImage

_FORMAT: Final = "1"


class EnvironmentSupply:
    """Locks and environments for the boxes of one backend, which `pool` holds."""

    def __init__(
        self,
        backend: Backend,
        pool: Pool,
        *,
        threads: Threads,
        store: Path | None,
        is_offline: bool,
        on_progress: OnProgress,
    ) -> None:
        self._images = ImageSupply(backend) if backend.needs_images else None
        self._backend = backend
        self._pool = pool
        self._threads = threads
        self._store = store
        self._is_offline = is_offline
        self._on_progress = on_progress
        self._opened: Provider | None = None
        self._builders: tuple[Pool, Backend] | None = None

    async def lock(self, needs: Needs, *, refresh: bool) -> Lock:
        """Resolve the requirements to a lock. With `refresh`, ask the indexes again."""
        return (await self._provider.lock(await self._for_boxes(needs), refresh=refresh)).lock

    async def build(self, needs: Needs, *, lock: Lock | None) -> Environment:
        """Build the environment of the requirements, or of an earlier lock, unless the store has it."""
        return await self._provider.provide(await self._for_boxes(needs), lock=lock)

    async def for_call(self, needs: Needs | None) -> Environment:
        """Return the environment for these needs as boxes are opened with it. None is the bare interpreter."""
        environment = bare_environment() if needs is None else await self._environment_for(needs)
        return environment if self._images is None else await self._images.with_image(environment)

    def forget_images(self) -> None:
        """Look for images again: one that boxes were to be made from is gone."""
        if self._images is not None:
            self._images.forget()

    async def settle(self) -> None:
        """Wait for builds that no caller waits for any more."""
        if self._opened is not None:
            await self._opened.settle()

    async def close(self) -> None:
        """Close every box that builds, and let go of the store."""
        if self._builders is not None:
            pool, backend = self._builders
            await pool.close()
            await backend.close()
        if self._opened is not None:
            self._opened.close()

    async def _environment_for(self, needs: Needs) -> Environment:
        if not self._backend.needs_environments:
            return _made_up(needs)
        if self._images is not None and not needs.requirements:
            await self._images.check_python(needs.requires_python)
            return bare_environment()
        needs = await self._for_boxes(needs)
        return self._provider.known(needs) or await self._provider.provide(needs)

    async def _for_boxes(self, needs: Needs) -> Needs:
        """Narrow the needs to the Python that the image of containers has."""
        if self._images is None:
            return needs
        asked = [needs.requires_python] if needs.requires_python else []
        return replace(needs, requires_python=",".join((*asked, await self._images.python_version())))

    @property
    def _provider(self) -> Provider:
        if not self._backend.needs_environments:
            raise EnvironmentUnavailable(
                f"the {self._backend.name} backend makes up its environments", remedy="lock and build with another one"
            )
        if self._opened is None:
            from sandbox.engine.build_jobs import BoxJobRunner
            from sandbox.environments.provider import Provider

            self._opened = Provider(
                BoxJobRunner(self._pool_for_builds(), self._threads),
                store=self._store,
                is_offline=self._is_offline,
                on_progress=self._on_progress,
            )
        return self._opened

    def _pool_for_builds(self) -> Pool:
        """Return a pool of boxes on this host, also if calls run in containers."""
        if self._images is None:
            return self._pool
        if self._builders is None:
            backend = open_backend("subprocess")
            self._builders = Pool(backend, max_memory=0), backend
        return self._builders[0]


def _made_up(needs: Needs) -> Environment:
    """Return a stand-in for a backend that runs no tool. Raise `RequirementRefused` as a real one would."""
    from sandbox.environments.resolution.request import rules_of
    from sandbox.environments.resolution.requirements import read_requirements

    required = read_requirements(needs.requirements, supply=rules_of(needs.policy.supply))
    digest = hashlib.sha256("\n".join((needs.requires_python or "", *required)).encode()).hexdigest()
    return replace(bare_environment(), key=digest, lock_digest=digest)


def needs_of(tool: ToolDefinition | None, spec: CallSpec | EnvironmentSpec, *, policy: Policy) -> Needs:
    """Return the requirements of a tool's source and of a spec together."""
    from sandbox.environments.provider import Needs

    named = spec.requires_python if isinstance(spec, EnvironmentSpec) else None
    return Needs(
        requirements=(*(tool.requirements if tool else ()), *spec.requirements),
        requires_python=named or (tool.requires_python if tool else None),
        policy=policy,
        tenant=spec.tenant,
    )


class ImageSupply:
    """The images of one engine's environments."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._base: BaseImage | None = None
        self._known: dict[str, Environment] = {}
        self._under_way: dict[str, asyncio.Task[Environment]] = {}

    async def python_version(self) -> str:
        """Return the Python for which containers need their environments, as a specifier such as `==3.11.*`."""
        return f"=={'.'.join((await self._base_image()).python.version.split('.')[:2])}.*"

    async def check_python(self, requires_python: str | None) -> None:
        """Raise `EnvironmentUnavailable` if a tool that requires only a Python requires another than the image's."""
        from packaging.specifiers import SpecifierSet

        python = (await self._base_image()).python.version
        if requires_python and not SpecifierSet(requires_python).contains(python, prereleases=True):
            raise EnvironmentUnavailable(
                f"the tool requires Python {requires_python[:80]}, and the image of containers has {python}",
                remedy="use the subprocess backend with an interpreter of that version",
            )

    async def with_image(self, environment: Environment) -> Environment:
        """Return the environment with its image."""
        known = self._known.get(environment.key)
        if known is not None and known.copy == environment.copy:
            return known
        task = self._under_way.get(environment.key)
        if task is None:
            task = asyncio.create_task(self._add_image(environment))
            self._under_way[environment.key] = task
            task.add_done_callback(partial(self._note_end, environment.key))
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Look for every image again."""
        self._base = None
        self._known.clear()

    def _note_end(self, key: str, task: asyncio.Task[Environment]) -> None:
        self._under_way.pop(key, None)
        # Every caller may be gone. Without this, asyncio logs an exception that nothing retrieved.
        if not task.cancelled():
            task.exception()

    async def _add_image(self, environment: Environment) -> Environment:
        base = await self._base_image()
        magic = bytes.fromhex(base.python.magic)
        image = BoxImage(base.id, magic)
        if environment.installed is not None:
            daemon = await self._daemon()
            await in_own_thread(partial(_check_fit, environment, base))
            if not daemon.sees_our_files:
                image = BoxImage(await self._make(daemon, environment, base), magic, holds_environment=True)
        inside = environment.lock_digest if environment.installed is None else environment.key
        key = hashlib.sha256(f"{_FORMAT} {base.content} {inside}".encode()).hexdigest()
        found = replace(environment, key=key, version=base.python.version, image=image)
        self._known[environment.key] = found
        return found

    async def _make(self, daemon: Daemon, environment: Environment, base: BaseImage) -> str:
        from sandbox.images import environment_image

        image = await daemon.ask("making an image", lambda client: environment_image(client, environment, base=base))
        return image.id

    async def _base_image(self) -> BaseImage:
        if self._base is None:
            from sandbox.images import find

            found = await (await self._daemon()).ask("looking for the base image", find)
            if found is None:
                raise BackendUnavailable(
                    "the daemon has no base image to start containers from", remedy="run `sandbox image bootstrap`"
                )
            self._base = found
        return self._base

    async def _daemon(self) -> Daemon:
        daemon = await self._backend.daemon()
        assert daemon is not None, "only backends with a daemon need images"
        return daemon


def _check_fit(environment: Environment, base: BaseImage) -> None:
    from sandbox.images.fitting import check_fit

    assert environment.installed is not None
    check_fit(environment.installed, base.python, base=base.tag)
