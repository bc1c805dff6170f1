"""Where one engine's environments come from: what calls require, resolved, built, and fitted to its backend.

The parts are elsewhere: `environments` resolves and builds, in boxes of this host (`workshop`), and `image_supply`
makes of an environment what a container can be opened from. Here they meet. A backend of containers has a Python of its
own, so what is asked for is narrowed to that one's version; and as its boxes are no place to build in, builds get boxes
of this host beside it. Nothing of all this is made before the first tool requires anything. A backend that runs no tool
gets environments that are made up: requirements are read as always, and nothing is resolved or built.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.backends import open_backend
from sandbox.backends.base import Backend
from sandbox.engine.images import ImageSupply
from sandbox.environments import Environment, bare_environment
from sandbox.environments.progress import OnProgress
from sandbox.errors import EnvironmentUnavailable
from sandbox.policy import Policy
from sandbox.pool.pool import Pool
from sandbox.spec import CallSpec, EnvironmentSpec
from sandbox.threads import Threads
from sandbox.tools import ToolDefinition

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.environments.provider import Needs, Provider


class EnvironmentSupply:
    """Locks and environments for the boxes of one backend; `pool` is where its boxes are."""

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
        self._made: Provider | None = None
        self._builders: tuple[Pool, Backend] | None = None

    async def lock(self, needs: Needs, *, refresh: bool) -> Lock:
        """What the requirements come to; asked of the indexes again with `refresh`."""
        return (await self._provider.lock(await self._for_boxes(needs), refresh=refresh)).lock

    async def build(self, needs: Needs, *, lock: Lock | None) -> Environment:
        """Have the environment in the store: of the requirements, or of a lock that they came to before."""
        return await self._provider.provide(await self._for_boxes(needs), lock=lock)

    async def for_call(self, needs: Needs | None) -> Environment:
        """What meets these needs, or the bare interpreter where there are none, as boxes are opened with it."""
        environment = bare_environment() if needs is None else await self._meeting(needs)
        return environment if self._images is None else await self._images.furnished(environment)

    def forget_images(self) -> None:
        """One that boxes were to be made from turned out to be gone."""
        if self._images is not None:
            self._images.forget()

    async def settle(self) -> None:
        """Wait for what is still under way for nobody."""
        if self._made is not None:
            await self._made.settle()

    async def close(self) -> None:
        """Close every box that builds, and let go of the store."""
        if self._builders is not None:
            pool, backend = self._builders
            await pool.close()
            await backend.close()
        if self._made is not None:
            self._made.close()

    async def _meeting(self, needs: Needs) -> Environment:
        if not self._backend.needs_environments:
            return _made_up(needs)
        if self._images is not None and not needs.requirements:
            await self._images.see_that_it_does(needs.requires_python)
            return bare_environment()
        needs = await self._for_boxes(needs)
        return self._provider.known(needs) or await self._provider.provide(needs)

    async def _for_boxes(self, needs: Needs) -> Needs:
        """With the Python that the image of containers has."""
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
        if self._made is None:
            from sandbox.engine.build_jobs import BoxJobRunner
            from sandbox.environments.provider import Provider

            self._made = Provider(
                BoxJobRunner(self._pool_for_builds(), self._threads),
                store=self._store,
                is_offline=self._is_offline,
                on_progress=self._on_progress,
            )
        return self._made

    def _pool_for_builds(self) -> Pool:
        """In boxes of this host, also when calls run in containers."""
        if self._images is None:
            return self._pool
        if self._builders is None:
            backend = open_backend("subprocess")
            self._builders = Pool(backend, max_memory=0), backend
        return self._builders[0]


def _made_up(needs: Needs) -> Environment:
    """What stands for all that is required, where no tool is run; raises `RequirementRefused`."""
    from sandbox.environments.resolution.request import rules_of
    from sandbox.environments.resolution.requirements import read_requirements

    required = read_requirements(needs.requirements, supply=rules_of(needs.policy.supply))
    digest = hashlib.sha256("\n".join((needs.requires_python or "", *required)).encode()).hexdigest()
    return replace(bare_environment(), key=digest, lock_digest=digest)


def needs_of(tool: ToolDefinition | None, spec: CallSpec | EnvironmentSpec, *, policy: Policy) -> Needs:
    """What a tool asks for, and what is asked for beside it."""
    from sandbox.environments.provider import Needs

    named = spec.requires_python if isinstance(spec, EnvironmentSpec) else None
    return Needs(
        requirements=(*(tool.requirements if tool else ()), *spec.requirements),
        requires_python=named or (tool.requires_python if tool else None),
        policy=policy,
        tenant=spec.tenant,
    )
