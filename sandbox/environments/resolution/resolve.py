"""From requirements to a lock: uv resolves, in a box whose only network is the egress proxy to the indexes.

The box sees the interpreter that the environment is for, uv, the folders of wheels and the proxy's socket. uv is given
the indexes' logins there, because with wheels alone no foreign code runs. Where the policy allows builds from source, a
package's code may run while uv resolves: then the first attempt takes wheels only, and the box of the second has no
login.

A package that comes as source only is built in a box of its own, after the resolution; the result is a wheel like any
other, and belongs to the tenant that asked for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from sandbox.environments.build_jobs import BUILD, Job, JobEnd, JobRunner, open_folder
from sandbox.environments.disk.build_folder import BuildingFolder
from sandbox.environments.disk.paths import make_folder
from sandbox.environments.indexes.client import Absent, Fault, IndexClient, missing_certificates
from sandbox.environments.indexes.local_places import LocalPlaces, lay_out
from sandbox.environments.indexes.proxy import IndexProxy, open_index_proxy
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.resolution.built_wheels import take_wheel
from sandbox.environments.resolution.request import (
    Resolution,
    ResolveRequest,
    refuse_left_out,
    refuse_unwanted,
    remember,
)
from sandbox.environments.resolution.uv_lock import (
    CERTIFICATES,
    Answer,
    certificates_of,
    index_options,
    index_variables,
    locked_wheel,
    no_wheel,
    read_answer,
    refuse_unbuilt,
    requirement_lines,
    resolve_options,
    source_of,
    stated_packages,
    yanked_releases,
)
from sandbox.environments.store.store import Store
from sandbox.errors import IndexRefused, IndexUnavailable, ResolutionFailed
from sandbox.policy import Policy
from sandbox.threads import in_own_thread

_HEADERS: Final = Path("/usr/include")
"""The folder that compilers need of the host."""
_SOURCES: Final = "/sources"
_SOURCE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,254}")
_MAX_SOURCE_BYTES: Final = 2 << 30
_SEEN: Final = 0o755


@dataclass(frozen=True, slots=True)
class Resolver:
    """The means of resolving: a store, boxes, uv, and the policy and interpreter of the box."""

    store: Store
    jobs: JobRunner
    uv: Path
    policy: Policy
    environment: Environment


async def resolve(question: ResolveRequest, resolver: Resolver) -> Resolution:
    """Ask uv, and remember the answer; raises `ResolutionFailed` or `IndexUnavailable`."""
    async with _asking(question, resolver) as asking:
        answer = await asking.answer(requirement_lines(question))
        stated = stated_packages(answer.text, question)
        take = partial(locked_wheel, places=asking.places, promised=answer.promised, supply=question.supply)
        found = [take(each) for each in stated if each.get("wheels")]
        sources = [each for each in stated if not each.get("wheels")]
        built = await asking.wheels_of(sources) if sources else []
    packages = (*(package for package, _ in found), *built)
    refuse_left_out(question, packages)
    refuse_unwanted(packages, question.supply)
    lock = Lock(
        requirements=question.requirements,
        interpreter=question.interpreter.tag,
        python=question.interpreter.version,
        packages=packages,
    )
    origins = {package.sha256: address for package, address in found}
    resolution = Resolution(lock=lock, origins=origins, warnings=yanked_releases(answer))
    remember(resolver.store, question, resolution)
    return resolution


async def locate(packages: Sequence[LockedPackage], question: ResolveRequest, resolver: Resolver) -> dict[str, str]:
    """Return where the indexes have these wheels now, by hash; a wheel that uv does not find there is left out.

    A lock from elsewhere does not say where its wheels are, and only uv knows how to ask every kind of index.
    """
    pins = [f"{package.name}=={package.version}" for package in packages]
    supply = question.supply.model_copy(
        update={"sdists": False, "exclude_newer": 0.0, "prereleases": True, "require_hashes": False}
    )
    question = replace(question, requirements=tuple(pins), supply=supply)
    async with _asking(question, resolver) as asking:
        try:
            answer = await asking.answer(pins, "--no-deps")
        except (IndexUnavailable, IndexRefused):
            raise
        except ResolutionFailed:
            return {}
        stated = [each for each in stated_packages(answer.text, question) if each.get("wheels")]
        found = [locked_wheel(each, asking.places, answer.promised, supply=supply) for each in stated]
    return {package.sha256: address for package, address in found}


@dataclass(frozen=True, slots=True)
class _Asking:
    """A request under way."""

    question: ResolveRequest
    resolver: Resolver
    building: BuildingFolder
    places: LocalPlaces
    proxy: IndexProxy

    async def answer(self, lines: Sequence[str], *options: str) -> Answer:
        """Return uv's answer; a policy that allows sources gets them only where wheels do not do."""
        question = self.question
        builds = question.supply.sdists
        if builds and question.settings.has_logins:
            end = await self._compile(lines, options, builds=False)
            if isinstance(end.value, dict) and end.value.get("code") == 0:
                return read_answer(end, question, refused=self.proxy.refused, builds=False)
        end = await self._compile(lines, options, builds=builds)
        return read_answer(end, question, refused=self.proxy.refused, builds=builds)

    async def _compile(self, lines: Sequence[str], options: Sequence[str], *, builds: bool) -> JobEnd:
        arguments: dict[str, JsonValue] = {
            "requirements": [*lines],
            "options": [*resolve_options(self.question, builds=builds), *options],
        }
        return await self._run("resolve", arguments, has_logins=not builds)

    async def wheels_of(self, stated: Sequence[Mapping[str, Any]]) -> list[LockedPackage]:
        """Build packages that come as source, and take each from the box as a wheel like any other."""
        if not self.question.supply.sdists:
            raise no_wheel(stated[0])
        sources = [source_of(each, self.places) for each in stated]
        folder, archives = self.building.folder / "made", self.building.folder / "sources"
        await in_own_thread(partial(open_folder, folder))
        paths = await in_own_thread(partial(self._fetch_sources, sources, archives))
        arguments: dict[str, JsonValue] = {
            "sources": [[name, path] for (name, _, _), path in zip(sources, paths, strict=True)],
            "options": [*index_options(self.question.settings), "--color", "never", "--no-config", "--no-progress"],
            "folder": BUILD,
        }
        end = await self._run("make_wheels", arguments, has_logins=False, folder=folder, sources=archives)
        refuse_unbuilt(end)
        take = partial(take_wheel, interpreter=self.question.interpreter, wheels=self.resolver.store.wheels)
        return [
            await in_own_thread(partial(take, folder / name, name=name, version=str(each.get("version"))))
            for (name, _, _), each in zip(sources, stated, strict=True)
        ]

    def _fetch_sources(self, sources: Sequence[tuple[str, str, str]], folder: Path) -> list[str]:
        make_folder(folder, _SEEN)
        client = IndexClient(self.question.settings, self.proxy.path)
        try:
            return [_fetch_source(client, each, folder) for each in sources]
        finally:
            client.close()

    async def _run(
        self,
        entry: str,
        arguments: Mapping[str, JsonValue],
        *,
        has_logins: bool,
        folder: Path | None = None,
        sources: Path | None = None,
    ) -> JobEnd:
        question, resolver = self.question, self.resolver
        readable = {"/uv": resolver.uv, **self.places.shown}
        if question.supply.sdists and _HEADERS.is_dir():
            readable[str(_HEADERS)] = _HEADERS
        if sources is not None:
            readable[_SOURCES] = sources
        certificates = certificates_of(question.settings)
        if certificates is not None:
            readable[CERTIFICATES] = certificates
        variables: dict[str, JsonValue] = {**index_variables(question.settings, self.places, has_logins=has_logins)}
        return await resolver.jobs.run(
            Job(
                program="indexed",
                entry=entry,
                arguments={**arguments, "python": str(question.interpreter.python), "variables": variables},
                policy=resolver.policy,
                interpreter=resolver.environment,
                folder=folder,
                disk=question.most_disk,
                readable=readable,
                gateway=self.proxy.path,
                tenant=question.tenant,
            )
        )


@asynccontextmanager
async def _asking(question: ResolveRequest, resolver: Resolver) -> AsyncIterator[_Asking]:
    missing = missing_certificates(question.settings)
    if missing is not None:
        raise IndexRefused(
            f"the certificates of this machine are missing: {missing}",
            remedy="correct PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE or pip's setting `cert`",
        )
    with resolver.store.new_building_folder() as building:
        places = await in_own_thread(partial(lay_out, question.settings, building.folder))
        async with open_index_proxy(question.settings, building.folder) as proxy:
            yield _Asking(question, resolver, building, places, proxy)


def _fetch_source(client: IndexClient, source: tuple[str, str, str], folder: Path) -> str:
    """Download one source, and return where the box sees it."""
    name, url, sha256 = source
    file = unquote(urlsplit(url).path.rpartition("/")[2])
    if not _SOURCE_NAME.fullmatch(file):
        raise ResolutionFailed(f"the index's name of the source of {name} is not one: {file[:200]!r}")
    digest, done = hashlib.sha256(), 0
    try:
        with client.open(url) as reply, (folder / file).open("wb") as target:
            for piece in reply.pieces:
                done += len(piece)
                if done > _MAX_SOURCE_BYTES:
                    raise ResolutionFailed(f"the source of {name} is longer than {_MAX_SOURCE_BYTES} bytes")
                digest.update(piece)
                target.write(piece)
    except Absent:
        raise ResolutionFailed(f"the index does not have the source of {name} that its page lists") from None
    except Fault as fault:
        raise IndexUnavailable(f"the source of {name} could not be downloaded: {fault.reason}") from None
    if digest.hexdigest() != sha256:
        raise ResolutionFailed(f"the source of {name} is not the file that the index promises")
    (folder / file).chmod(0o644)
    return f"{_SOURCES}/{file}"
