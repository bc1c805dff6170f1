"""From requirements to a lock: uv resolves, in a box whose only network is the gateway to the machine's own indexes.

The box sees the interpreter that the environment is for, uv, and the gateway's socket; no credentials, no settings of
the host, no files.

A package that comes as source only is built, where the policy allows that, in a box of its own, after the resolution;
what comes out is a wheel like any other, and belongs to the tenant who asked for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from sandbox.environments.build_jobs import BUILD, Job, JobEnd, JobRunner, open_folder
from sandbox.environments.indexes.gateway import Gateway
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.resolution.built_wheels import take_wheel
from sandbox.environments.resolution.request import (
    Question,
    Resolution,
    refuse_left_out,
    refuse_unwanted,
    remember,
)
from sandbox.environments.resolution.uv_lock import (
    index_options,
    lock_text,
    locked_wheel,
    no_wheel,
    refuse_unbuilt,
    requirement_lines,
    resolve_options,
    source_of,
    stated_packages,
    sure_names,
    warnings_of,
)
from sandbox.environments.store.store import Store
from sandbox.environments.threads import to_its_end
from sandbox.policy import Policy
from sandbox.threads import in_own_thread

_HEADERS: Final = Path("/usr/include")
"""What compilers need of the host beside themselves."""


async def resolve(
    question: Question, *, store: Store, workshop: JobRunner, uv: Path, policy: Policy, environment: Environment
) -> Resolution:
    """Ask uv, and remember what it found; raises `ResolutionFailed` or `IndexUnavailable`."""
    with store.new_building_folder() as building:
        async with _opened(Gateway(question.settings, building.folder)) as gateway:
            gateway.expect(sure_names(question))
            asking = _Asking(question, gateway, store=store, workshop=workshop, uv=uv, policy=policy)
            stated = stated_packages(await asking.uv_lock(environment), question)
            warnings = warnings_of(stated, gateway)
            found = [locked_wheel(each, gateway, supply=question.supply) for each in stated if each.get("wheels")]
            sources = [each for each in stated if not each.get("wheels")]
            made = await asking.wheels_of(sources, environment, building.folder / "made") if sources else []
    packages = (*(package for package, _ in found), *made)
    refuse_left_out(question, packages)
    refuse_unwanted(packages, question.supply)
    lock = Lock(
        requirements=question.requirements,
        interpreter=question.interpreter.tag,
        python=question.interpreter.version,
        packages=packages,
    )
    origins = {package.sha256: address for package, address in found}
    resolution = Resolution(lock=lock, origins=origins, warnings=warnings)
    remember(store, question, resolution)
    return resolution


@asynccontextmanager
async def _opened(gateway: Gateway) -> AsyncIterator[Gateway]:
    """The gateway, whose threads are not waited for on the event loop."""
    try:
        await to_its_end(gateway.__enter__)
        yield gateway
    finally:
        await to_its_end(partial(gateway.__exit__, None, None, None))


@dataclass(frozen=True, slots=True)
class _Asking:
    """What one question is asked with."""

    question: Question
    gateway: Gateway
    store: Store
    workshop: JobRunner
    uv: Path
    policy: Policy

    async def uv_lock(self, environment: Environment) -> str:
        """The text of uv's lock."""
        arguments: dict[str, JsonValue] = {
            "requirements": [*requirement_lines(self.question, self.gateway)],
            "options": [*resolve_options(self.question)],
        }
        end = await self._run("resolve", arguments, environment)
        return lock_text(end, self.gateway, question=self.question)

    async def wheels_of(
        self, stated: Sequence[Mapping[str, Any]], environment: Environment, folder: Path
    ) -> list[LockedPackage]:
        """Packages that come as source, each built in a box and taken from it as a wheel like any other."""
        if not self.question.supply.sdists:
            raise no_wheel(stated[0])
        sources = [source_of(each, self.gateway) for each in stated]
        await in_own_thread(partial(open_folder, folder))
        arguments: dict[str, JsonValue] = {
            "sources": [[*source] for source in sources],
            "options": [*index_options(self.question), "--color", "never", "--no-config", "--no-progress"],
            "folder": BUILD,
        }
        end = await self._run("make_wheels", arguments, environment, folder=folder)
        refuse_unbuilt(end)
        take = partial(take_wheel, interpreter=self.question.interpreter, wheels=self.store.wheels)
        return [
            await in_own_thread(partial(take, folder / name, name=name, version=str(each.get("version"))))
            for (name, _, _), each in zip(sources, stated, strict=True)
        ]

    async def _run(
        self, entry: str, arguments: Mapping[str, JsonValue], environment: Environment, folder: Path | None = None
    ) -> JobEnd:
        readable = {"/uv": self.uv}
        if self.question.supply.sdists and _HEADERS.is_dir():
            readable[str(_HEADERS)] = _HEADERS
        return await self.workshop.run(
            Job(
                program="indexed",
                entry=entry,
                arguments={**arguments, "python": str(self.question.interpreter.python)},
                policy=self.policy,
                interpreter=environment,
                folder=folder,
                disk=self.question.most_disk,
                readable=readable,
                gateway=self.gateway.socket,
                tenant=self.question.tenant,
            )
        )
