"""From requirements to a lock: uv resolves, in a box whose only network is the gateway to the machine's own indexes.

The box sees the interpreter that the environment is for, uv, and the gateway's socket; no credentials, no settings of
the host, no files. What comes back is text that a stranger's package may have had a hand in, and is read as such: every
field is checked, the gateway says which file of which index an address stands for, and a wheel without a hash, or more
packages than the policy takes, end it.

What was resolved once is remembered for the same requirements, indexes, interpreter and rules of supply, so that a tool
gets tomorrow what it got today; with a waiting time for new releases, until the next day. `refresh` asks again.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.environments.gateway import Gateway
from sandbox.environments.indexes import IndexSettings
from sandbox.environments.interpreters import HostInterpreter
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.store import Store
from sandbox.environments.workshop import Job, JobEnd, Workshop
from sandbox.errors import IndexUnavailable, ResolutionFailed
from sandbox.policy import Policy, Supply

_SEEN_AT: Final = "http://127.0.0.1:8479"
"""Where the relay in the box listens (runners/builder/resolve.py)."""
_LONGEST_EXPLANATION: Final = 3000
_NO_SOLUTION: Final = re.compile(r"error: No solution found when resolving dependencies:?\s*(?:cause:)?\s*", re.S)
_DAY_S: Final = 86_400


class Resolution(BaseModel):
    """A lock, and where its wheels were found: an address of the machine's indexes for each hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lock: Lock
    origins: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be resolved, for whom, by which rules."""

    requirements: tuple[str, ...]
    interpreter: HostInterpreter
    supply: Supply
    settings: IndexSettings
    most_packages: int
    tenant: str = ""

    @property
    def digest(self) -> str:
        """Equal for questions that have the same answer."""
        waiting = self.supply.exclude_newer
        asked = [
            self.requirements,
            self.interpreter.tag,
            self.supply.model_dump(mode="json"),
            [index.url for index in self.settings.indexes],
            list(self.settings.find_links),
            self.tenant if any(index.credentials for index in self.settings.indexes) else "",
            int(time.time() // _DAY_S) if waiting else None,
        ]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def remembered(store: Store, question: Question) -> Resolution | None:
    """The answer that was found before."""
    try:
        return Resolution.model_validate_json(_place(store, question).read_bytes())
    except (OSError, ValidationError):
        return None


async def resolve(
    question: Question, *, store: Store, workshop: Workshop, uv: Path, policy: Policy, environment: Environment
) -> Resolution:
    """Ask uv, and remember what it found; raises `ResolutionFailed` or `IndexUnavailable`."""
    with store.new_building_folder() as building, Gateway(question.settings, building.folder) as gateway:
        end = await workshop.run(
            Job(
                program="resolve",
                arguments={
                    "requirements": [*question.requirements],
                    "options": [*_options(question)],
                    "python": str(question.interpreter.python),
                },
                policy=policy,
                interpreter=environment,
                readable={"/uv": uv},
                gateway=gateway.socket,
                tenant=question.tenant,
            )
        )
        text = _answer(end, gateway)
        found = Resolution(**_read(text, question, gateway))
    _remember(store, question, found)
    return found


def _options(question: Question) -> list[str]:
    supply, settings = question.supply, question.settings
    options = ["--no-config", "--no-header", "--color", "never", "--no-progress", "--no-python-downloads", "--quiet"]
    options += ["--index-strategy", "first-index", "--link-mode", "copy"]
    urls = [f"{_SEEN_AT}/{number}/simple/" for number in range(len(settings.indexes))]
    if urls:
        options += ["--default-index", urls[-1], *(part for url in urls[:-1] for part in ("--index", url))]
    else:
        options += ["--no-index"]
    for number in range(len(settings.find_links)):
        options += ["--find-links", f"{_SEEN_AT}/links/{number}/"]
    if not supply.sdists:
        options += ["--no-build"]
    if supply.prereleases:
        options += ["--prerelease", "allow"]
    if supply.exclude_newer:
        newest = datetime.now(UTC) - timedelta(seconds=supply.exclude_newer)
        options += ["--exclude-newer", newest.strftime("%Y-%m-%dT00:00:00Z")]
    return options


def _answer(end: JobEnd, gateway: Gateway) -> str:
    """The text of uv's lock."""
    if end.problem is not None or not isinstance(end.value, dict):
        raise ResolutionFailed(f"the requirements could not be resolved: {end.problem} {end.said[-500:]}".rstrip())
    if end.value.get("code") == 0:
        return str(end.value.get("lock"))
    if gateway.faults:
        fault = gateway.faults[0]
        raise IndexUnavailable(
            f"the package index {fault.url} did not answer as one: {fault.reason}",
            remedy="try again, or ask for what is in the store or in a folder of wheels with `--offline`",
        )
    raise ResolutionFailed(_explained(str(end.value.get("said"))), remedy="change the requirements it names")


def _explained(said: str) -> str:
    """The resolver's own explanation, in lines of text and no longer than people read."""
    text = " ".join(_NO_SOLUTION.sub("", said).split())
    text = text.removeprefix("error: ").replace("in the package registry", "in any index")
    text = re.sub(re.escape(_SEEN_AT) + r"/(\d+)/simple/?", r"index \1", text)
    shortened = text if len(text) <= _LONGEST_EXPLANATION else text[:_LONGEST_EXPLANATION] + "…"
    return f"the requirements have no solution: {shortened}"


def _read(text: str, question: Question, gateway: Gateway) -> dict[str, Any]:
    try:
        stated = tomllib.loads(text).get("packages", [])
        chosen = [each for each in stated if _is_for(each.get("marker"), question.interpreter)]
    except (tomllib.TOMLDecodeError, AttributeError, InvalidMarker) as error:
        raise ResolutionFailed(f"the resolver's answer cannot be read: {error}") from None
    _refuse_too_many(len(chosen), question.most_packages)
    packages, origins = [], {}
    for each in chosen:
        package, origin = _locked(each, gateway)
        packages.append(package)
        origins[package.sha256] = origin
    _refuse_unwanted(packages, question.supply)
    lock = Lock(requirements=question.requirements, interpreter=question.interpreter.tag, packages=tuple(packages))
    return {"lock": lock, "origins": origins}


def _is_for(marker: object, interpreter: HostInterpreter) -> bool:
    """Whether this package is one of the environment's; uv leaves markers on some that it has decided about."""
    if marker is None:
        return True
    short = ".".join(interpreter.version.split(".")[:2])
    return Marker(str(marker)).evaluate({"python_version": short, "python_full_version": interpreter.version})


def _locked(stated: Mapping[str, Any], gateway: Gateway) -> tuple[LockedPackage, str]:
    name = str(stated.get("name"))[:200]
    wheels = stated.get("wheels") or []
    if not wheels:
        raise ResolutionFailed(
            f"{name} {stated.get('version')} has no wheel for this interpreter and platform",
            remedy="ask for another version; building from source is not taken by this policy",
        )
    origin = gateway.origin(str(wheels[0].get("url")))
    sha256 = wheels[0].get("hashes", {}).get("sha256") or (origin and origin.sha256)
    if origin is None or sha256 is None:
        raise ResolutionFailed(f"the index has no SHA-256 for the wheel of {name}", remedy="use an index that has")
    try:
        package = LockedPackage(
            name=canonicalize_name(name),
            version=str(stated.get("version")),
            wheel=origin.filename,
            sha256=sha256,
            size=wheels[0].get("size"),
        )
    except ValidationError as error:
        raise ResolutionFailed(f"the index's entry for {name} is not one: {error.errors()[0]['msg']}") from None
    return package, origin.url


def _refuse_too_many(count: int, most: int) -> None:
    if count > most:
        raise ResolutionFailed(
            f"the requirements come to {count} packages; the policy takes {most}",
            remedy="ask for less, or raise environment.packages in the policy",
        )


def _refuse_unwanted(packages: Iterable[LockedPackage], supply: Supply) -> None:
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


def _place(store: Store, question: Question) -> Path:
    return store.root / "resolutions" / f"{question.digest}.json"


def _remember(store: Store, question: Question, found: Resolution) -> None:
    place = _place(store, question)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, suffix=".new", delete=False) as file:
        file.write(found.model_dump_json().encode())
    Path(file.name).replace(place)
