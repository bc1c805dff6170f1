"""Environments for an engine: what a call requires goes in, an environment that is there to be used comes out.

    requirements → lock       remembered, or resolved in a box
    lock → key → store        found, or built once however many ask: in this process one task per question, between
                              processes a lock on the key
    in use                    held from then on until the engine ends: nothing that prunes the store takes it away

A warm call finds its environment by the request alone, so it pays for a dictionary. Modules that only resolve or only
build are imported when needed: a new process that finds its environment in the store does not wait for them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sandbox.environments.build_context import BuildContext, bare, builder_digest, create_context, job_policy
from sandbox.environments.build_jobs import JobRunner
from sandbox.environments.disk.locks import InUse, Owner
from sandbox.environments.indexes.settings import IndexSettings, read_index_settings, settings_for
from sandbox.environments.installed import environment_of, is_there
from sandbox.environments.interpreters.host import HostInterpreter, own_interpreter, pick_interpreter
from sandbox.environments.interpreters.skeleton import site_folder
from sandbox.environments.key import environment_key
from sandbox.environments.model import Environment
from sandbox.environments.progress import OnProgress, Progress, ignore_progress
from sandbox.environments.resolution.request import Resolution, ResolveRequest, remembered, rules_of
from sandbox.environments.resolution.requirements import read_requirements
from sandbox.environments.store.failures import FailureMemory, means_digest
from sandbox.environments.store.store import CONTENT, Store, StoredEnvironment
from sandbox.environments.tasks import SharedTasks, to_its_end
from sandbox.environments.uv_binary import uv_program
from sandbox.errors import BuildFailed, EnvironmentUnavailable, IndexRefused, WheelGone
from sandbox.policy import NetworkMode, Policy, ReuseMode
from sandbox.threads import in_own_thread

if TYPE_CHECKING:
    from sandbox.environments.builds.plan import Plan
    from sandbox.environments.builds.workspace import BuildWorkspace
    from sandbox.environments.lock import Lock
    from sandbox.environments.resolution.resolve import Resolver

Result = TypeVar("Result")
_PATIENCE_S: Final = 3600.0
_BELIEVED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Needs:
    """The environment that one call needs."""

    requirements: tuple[str | Mapping[str, object], ...]
    requires_python: str | None
    policy: Policy
    tenant: str = ""

    @property
    def question(self) -> tuple[object, ...]:
        """Equal for needs that the same environment meets."""
        asked = tuple(each if isinstance(each, str) else json.dumps(each, sort_keys=True) for each in self.requirements)
        rules = self.policy.environment.model_dump_json(), self.policy.supply.model_dump_json()
        return asked, self.requires_python, rules, self.tenant


class Provider:
    """All environments of one engine; used from its event loop."""

    def __init__(
        self,
        jobs: JobRunner,
        *,
        store: Path | None = None,
        is_offline: bool = False,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        self.store = Store(store)
        self._jobs = jobs
        self._is_offline = is_offline
        self._report = on_progress
        self._known: dict[tuple[object, ...], Environment] = {}
        self._tasks = SharedTasks()
        self._failures = FailureMemory(self.store)
        self._in_use: dict[str, InUse] = {}
        self._processors = max(os.cpu_count() or 1, 2)
        self._workspaces = 0
        self._builds = asyncio.Semaphore(self._processors)
        self._resolves = asyncio.Semaphore(2 * self._processors)
        """A gate of its own, and a wider one: these wait for indexes most of the time, and no build waits for them."""

    def known(self, needs: Needs) -> Environment | None:
        """The environment that was provided for equal needs before, unless it was removed since, or each box's must be
        looked at again."""
        if needs.policy.environment.verify and needs.policy.reuse.mode is ReuseMode.NEVER:
            return None
        environment = self._known.get(needs.question)
        if environment is None or is_there(environment):
            return environment
        self._let_go_of(environment.key)
        return None

    async def provide(self, needs: Needs, *, lock: Lock | None = None) -> Environment:
        """Find or build it; of a lock that is given, whatever the requirements come to now. Raises
        `EnvironmentUnavailable` and its kinds."""
        self._see_to_store()
        if lock is not None:
            environment = await self._provide_locked(needs, lock)
        else:
            environment = await self._provide_required(needs)
            self._known[needs.question] = environment
        self._report(Progress("ready", environment.key))
        return environment

    async def _provide_required(self, needs: Needs) -> Environment:
        interpreter = await _interpreter(needs.requires_python)
        if not needs.requirements:
            return bare(interpreter)
        return await self._tasks.once(("env", needs.question), lambda: self._provide(needs, interpreter))

    async def _provide_locked(self, needs: Needs, lock: Lock) -> Environment:
        from sandbox.environments.resolution.request import interpreter_for, take_lock

        resolution = take_lock(lock, policy=needs.policy)
        interpreter = await in_own_thread(partial(interpreter_for, lock, needs.requires_python))
        return await self._locked(needs, interpreter, resolution)

    async def lock(self, needs: Needs, *, refresh: bool = False) -> Resolution:
        """Return the lock that the requirements resolve to."""
        self._see_to_store()
        interpreter = await _interpreter(needs.requires_python)
        question = self._question(needs, interpreter)
        found = await self._tasks.once(
            ("lock", question.digest, question.settings.offline),
            lambda: self._resolve(needs, question, refresh=refresh),
        )
        self._warn(found)
        self._report(Progress("ready", found.lock.digest))
        return found

    async def settle(self) -> None:
        """Wait until all work without a caller has ended."""
        await self._tasks.settle()

    def close(self) -> None:
        """Let go of what is in use."""
        for hold in self._in_use.values():
            hold.release()
        self._in_use.clear()

    def _see_to_store(self) -> None:
        """Make a removed store again, and let go of the environments that went with it."""
        if not self.store.restore():
            return
        for key in [key for key in self._in_use if self.store.find(key) is None]:
            self._let_go_of(key)

    def _let_go_of(self, key: str) -> None:
        """Forget an environment that was removed."""
        if key in self._in_use:
            self._in_use.pop(key).release()
        self._known = {asked: each for asked, each in self._known.items() if each.key != key}

    async def _provide(self, needs: Needs, interpreter: HostInterpreter) -> Environment:
        question = self._question(needs, interpreter)
        known = remembered(self.store, question)
        if known is not None:
            with suppress(WheelGone, IndexRefused):  # the requirements are resolved anew
                return await self._locked(needs, interpreter, known)
        async with self._workspace_ahead(needs, question) as workspace:
            resolution = await self._tasks.once(
                ("lock", question.digest, question.settings.offline),
                lambda: self._resolve(needs, question, refresh=known is not None),
            )
            return await self._locked(needs, interpreter, resolution, workspace=workspace)

    @asynccontextmanager
    async def _workspace_ahead(self, needs: Needs, question: ResolveRequest) -> AsyncIterator[BuildWorkspace | None]:
        """Prepare the workspace of the build while its requirements are resolved, if processors are to spare."""
        means = means_digest(question.settings, needs.policy.environment, tenant=needs.tenant)
        is_busy = self._builds.locked() or self._workspaces >= self._processors
        if is_busy or self.store.failure(question.digest, means=means) is not None:
            yield None
            return
        from sandbox.environments.builds.workspace import open_workspace

        self._workspaces += 1
        try:
            own = create_context(question.interpreter, question.settings, policy=needs.policy, tenant=needs.tenant)
            keep = partial(self._skeleton, question.interpreter)
            async with open_workspace(own, store=self.store, jobs=self._jobs, keep_skeleton=keep) as workspace:
                workspace.begin()
                yield workspace
        finally:
            self._workspaces -= 1

    async def _locked(
        self,
        needs: Needs,
        interpreter: HostInterpreter,
        resolution: Resolution,
        *,
        workspace: BuildWorkspace | None = None,
    ) -> Environment:
        """The environment that a lock comes to."""
        if not resolution.lock.packages:
            return bare(interpreter)
        self._warn(resolution)
        key = environment_key(resolution.lock, interpreter.digest, builder_digest=builder_digest())
        stored = self._taken(key)
        if stored is None:
            means = self._means(needs, interpreter) if workspace is None else workspace.means
            stored = await self._built(self._plan(key, resolution, means), needs, workspace)
        if needs.policy.environment.verify or not (stored.folder / site_folder(interpreter)).is_dir():
            await in_own_thread(partial(self._verify, key))
        return environment_of(stored, interpreter)

    def _warn(self, resolution: Resolution) -> None:
        for warning in resolution.warnings:
            self._report(Progress("warn", warning))

    async def _resolve(self, needs: Needs, question: ResolveRequest, *, refresh: bool) -> Resolution:
        found = None if refresh else remembered(self.store, question)
        if found is not None:
            return found
        from sandbox.environments.resolution.resolve import resolve

        means = means_digest(question.settings, needs.policy.environment, tenant=needs.tenant)
        if not refresh:
            self._failures.refuse(question.digest, means)
        self._report(Progress("resolve", ", ".join(question.requirements)[:200]))
        async with self._resolves:
            with self._failures.remembering(question.digest, means):
                return await resolve(question, self._resolver(needs, question.interpreter))

    def _resolver(self, needs: Needs, interpreter: HostInterpreter) -> Resolver:
        from sandbox.environments.resolution.resolve import Resolver

        return Resolver(
            store=self.store,
            jobs=self._jobs,
            uv=uv_program(),
            policy=job_policy(needs.policy, NetworkMode.INDEX),
            environment=bare(interpreter),
        )

    async def _located(self, plan: Plan, needs: Needs) -> Plan:
        """The plan, with an address for each wheel that must be downloaded and whose lock came from elsewhere."""
        from sandbox.environments.builds.wheels import without_address
        from sandbox.environments.resolution.resolve import locate

        packages = await in_own_thread(partial(without_address, plan, self.store))
        if not packages:
            return plan
        question = self._question_about(needs, plan.means.interpreter, ())
        async with self._resolves:
            found = await locate(packages, question, self._resolver(needs, plan.means.interpreter))
        resolution = plan.resolution.model_copy(update={"origins": {**plan.resolution.origins, **found}})
        return replace(plan, resolution=resolution)

    async def _skeleton(self, interpreter: HostInterpreter) -> None:
        """See to it that one is kept for this interpreter."""
        making = partial(self._keep_skeleton, interpreter)
        await self._tasks.once(("skeleton", interpreter.digest), lambda: to_its_end(making))

    def _keep_skeleton(self, interpreter: HostInterpreter) -> None:
        """Make the one that is kept, if it is not there yet; whatever prevents it is for the build to say."""
        from sandbox.environments.interpreters.skeleton import is_kept, make_skeleton

        place = self.store.skeletons
        if is_kept(interpreter, kept_in=place):
            return
        with suppress(EnvironmentUnavailable, OSError), self.store.new_building_folder() as building:
            make_skeleton(interpreter, kept_in=place, folder=building.folder / CONTENT)

    def _question(self, needs: Needs, interpreter: HostInterpreter) -> ResolveRequest:
        lines = read_requirements(needs.requirements, supply=rules_of(needs.policy.supply))
        return self._question_about(needs, interpreter, lines)

    def _question_about(self, needs: Needs, interpreter: HostInterpreter, lines: tuple[str, ...]) -> ResolveRequest:
        supply = needs.policy.supply
        return ResolveRequest(
            requirements=lines,
            interpreter=interpreter,
            supply=supply,
            settings=self._settings(needs.policy),
            most_packages=needs.policy.environment.packages,
            most_disk=needs.policy.environment.build_disk,
            tenant=needs.tenant,
        )

    def _settings(self, policy: Policy) -> IndexSettings:
        machine = read_index_settings(os.environ, home=Path.home())
        settings = settings_for(policy.supply.indexes, machine, wheelhouse=policy.supply.wheelhouse)
        return replace(settings, offline=settings.offline or self._is_offline or policy.supply.offline)

    def _plan(self, key: str, resolution: Resolution, means: BuildContext) -> Plan:
        from sandbox.environments.builds.plan import Plan

        return Plan(key=key, resolution=resolution, means=means)

    def _means(self, needs: Needs, interpreter: HostInterpreter) -> BuildContext:
        return create_context(interpreter, self._settings(needs.policy), policy=needs.policy, tenant=needs.tenant)

    async def _built(self, plan: Plan, needs: Needs, workspace: BuildWorkspace | None) -> StoredEnvironment:
        """Build the environment, or wait for the process that does; it is in use from now on, and not pruned."""
        told = plan.resolution.model_dump_json()
        means = means_digest(plan.means.settings, needs.policy.environment, tenant=needs.tenant, told=told)
        self._failures.refuse(plan.key, means)

        def wait(owner: Owner | None) -> None:
            self._report(Progress("wait", f"for {owner or 'another process'}, which builds the same"))
            if workspace is not None:
                workspace.give_up()

        async with self.store.lock(plan.key).held(timeout_s=_PATIENCE_S, on_wait=wait):
            found = self._taken(plan.key)
            if found is not None:
                return found
            self._failures.refuse(plan.key, means)
            await self._build(plan, needs, means, workspace)
            found = self._taken(plan.key)
        if found is None:
            raise BuildFailed(f"environment {plan.key[:12]} vanished from the store as soon as it was built")
        return found

    async def _build(self, plan: Plan, needs: Needs, means: str, workspace: BuildWorkspace | None) -> None:
        from sandbox.environments.builds.build import build
        from sandbox.environments.builds.workspace import open_workspace

        async with self._builds:
            with self._failures.remembering(plan.key, means):
                plan = await self._located(plan, needs)
                if workspace is not None:
                    await build(plan, workspace=workspace, store=self.store, tell=self._report)
                    return
                keep = partial(self._skeleton, plan.means.interpreter)
                async with open_workspace(plan.means, store=self.store, jobs=self._jobs, keep_skeleton=keep) as own:
                    await build(plan, workspace=own, store=self.store, tell=self._report)

    def _taken(self, key: str) -> StoredEnvironment | None:
        """Return the environment if it is in the store; it is not pruned until this engine ends."""
        if key in self._in_use and self.store.find(key) is None:
            self._let_go_of(key)
        if key not in self._in_use:
            hold = self.store.use(key)
            if hold is None:
                return None
            self._in_use[key] = hold
        return self.store.find(key)

    def _verify(self, key: str) -> None:
        self.store.verify(key).raise_if_tampered()


async def _interpreter(requires_python: str | None) -> HostInterpreter:
    """The one for a tool; only to find others than the engine's own is it worth a thread."""
    if requires_python is None:
        return own_interpreter()
    return await in_own_thread(partial(pick_interpreter, requires_python))
