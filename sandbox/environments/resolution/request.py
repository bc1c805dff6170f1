"""Questions for the resolver, and the answers that are remembered.

The engine answers the same requirements, indexes, interpreter and rules of supply with the same lock, so that a tool
gets tomorrow what it got today; with a waiting time for new releases, until the next day. A lock that was imported from
elsewhere answers offline requests.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.environments.disk.complete_marker import write_whole
from sandbox.environments.disk.paths import writing
from sandbox.environments.indexes.settings import IndexSettings
from sandbox.environments.interpreters.host import HostInterpreter, interpreter_tagged
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.resolution.requirements import SupplyRules, excluded_by_marker, read_requirements
from sandbox.environments.store.imported_locks import brought_lock, brought_locks
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentUnavailable, ResolutionFailed
from sandbox.policy import Policy, Supply

_DAY_S: Final = 86_400
_OFFLINE: Final = "-offline"


class Resolution(BaseModel):
    """A lock, where its wheels were found, an address of the machine's indexes for each hash, and what is to be said of
    them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lock: Lock
    origins: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolveRequest:
    """The requirements to resolve, the tenant, and the rules."""

    requirements: tuple[str, ...]
    interpreter: HostInterpreter
    supply: Supply
    settings: IndexSettings
    most_packages: int
    most_disk: int
    tenant: str = ""

    @property
    def is_private(self) -> bool:
        """Whether the answer is its tenant's alone: what a private index has, and what a stranger's source made."""
        return self.supply.sdists or self.settings.has_logins

    @property
    def digest(self) -> str:
        """Equal for requests that have the same answer, offline or not."""
        waiting = self.supply.exclude_newer
        asked = [
            self.requirements,
            [self.interpreter.tag, self.interpreter.version],
            self.supply.model_dump(mode="json", exclude={"offline"}),
            [index.url for index in self.settings.indexes],
            list(self.settings.find_links),
            self.settings.asks_default,
            self.tenant if self.is_private else "",
            int(time.time() // _DAY_S) if waiting else None,
        ]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def remembered(store: Store, question: ResolveRequest) -> Resolution | None:
    """The answer that was found before, as far as the policy takes it; offline also one that was found offline, or that
    was brought along."""
    found = _recalled(_place(store, question.digest))
    if found is None and question.settings.offline:
        found = _recalled(_place(store, f"{question.digest}{_OFFLINE}"))
    if found is None and question.settings.offline:
        brought = brought_lock(store, question.requirements, question.interpreter.tag)
        found = None if brought is None else Resolution(lock=brought)
    if found is not None:
        refuse_too_many(len(found.lock.packages), question.most_packages)
        refuse_unwanted(found.lock.packages, question.supply)
    return found


def remember(store: Store, question: ResolveRequest, found: Resolution) -> None:
    """Answer with this from now on: what was found offline, in folders, only those who ask offline."""
    offline = _OFFLINE if question.settings.offline else ""
    # A query may hold a signature, which is a secret and does not last.
    origins = {sha256: url.partition("?")[0] for sha256, url in found.origins.items()}
    _keep(_place(store, f"{question.digest}{offline}"), found.model_copy(update={"origins": origins}))


def answers(store: Store) -> Iterator[Lock]:
    """All that the store remembers, found or brought along."""
    for place in store.resolutions.glob("*.json"):
        with suppress(OSError, ValidationError):
            yield Resolution.model_validate_json(place.read_bytes()).lock
    yield from (brought.lock for brought in brought_locks(store))


def rules_of(supply: Supply) -> SupplyRules:
    """Return the policy's rules for requirements."""
    return SupplyRules(frozenset(supply.allow), frozenset(supply.deny), supply.direct_references)


def refuse_too_many(count: int, most: int) -> None:
    if count > most:
        raise ResolutionFailed(
            f"the requirements come to {count} packages; the policy takes {most}",
            remedy="ask for less, or raise environment.packages in the policy",
        )


def refuse_left_out(question: ResolveRequest, packages: Iterable[LockedPackage]) -> None:
    """Resolvers do not read every marker alike; what is asked for here is never left out in silence."""
    others = excluded_by_marker(question.requirements, markers=question.interpreter.markers)
    names = {package.name for package in packages}
    asked = [line for line in question.requirements if line not in others]
    left_out = [line for line in asked if canonicalize_name(Requirement(line).name) not in names]
    if left_out:
        raise ResolutionFailed(
            f"left out, though its marker asks for it on this interpreter: {'; '.join(left_out[:5])}",
            remedy='compare with a release that is not a pre-release, such as `python_version >= "3.11"`',
        )


def refuse_unwanted(packages: Iterable[LockedPackage], supply: Supply) -> None:
    """The policy's lists hold for what the requirements bring along, too."""
    unwanted = [
        package.name
        for package in packages
        if package.name in supply.deny or (supply.allow and package.name not in supply.allow)
    ]
    if unwanted:
        raise ResolutionFailed(
            f"the requirements bring along what the policy does not take: {', '.join(unwanted[:20])}",
            remedy="ask the operator to allow it in the policy's [supply], or require something else",
        )


def _place(store: Store, digest: str) -> Path:
    return store.resolutions / f"{digest}.json"


def _recalled(place: Path) -> Resolution | None:
    """Return the answer in this file, and mark it as used, so that it is not pruned soon."""
    try:
        found = Resolution.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None
    with suppress(OSError):
        os.utime(place)
    return found


def _keep(place: Path, found: Resolution) -> None:
    with writing("what the requirements come to"):
        write_whole(place, found.model_dump_json().encode(), mode=0o600)


def take_lock(lock: Lock, *, policy: Policy) -> Resolution:
    """Return a lock from elsewhere as an answer, as far as the policy takes it.

    A lock may have been made by hand or under another policy, so the policy judges it like requirements.
    Raises `RequirementRefused` or `ResolutionFailed`.
    """
    read_requirements(lock.requirements, supply=rules_of(policy.supply))
    refuse_too_many(len(lock.packages), policy.environment.packages)
    refuse_unwanted(lock.packages, policy.supply)
    return Resolution(lock=lock)


def interpreter_for(lock: Lock, requires_python: str | None) -> HostInterpreter:
    """Return the interpreter that a lock is for, of a version that the tool takes; may search the host for it."""
    found = interpreter_tagged(lock.interpreter, requires_python, release=lock.python)
    if found is None:
        fitting = f" that fits requires-python '{requires_python}'" if requires_python else ""
        raise EnvironmentUnavailable(
            f"the lock is for {lock.interpreter}, and this host has no such interpreter{fitting}",
            remedy="lock again on this machine, or install the Python that it is for",
        )
    return found
