"""What uv is asked, and what its answer says.

The answer is text that a stranger's package may have had a hand in, and is read as such: every field is checked, the
gateway says which file of which index an address stands for, and a wheel without a hash ends it. Where there is none,
uv's own explanation is passed on, without what only means something inside the box.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pydantic import ValidationError

from sandbox.environments.build_jobs import JobEnd, refuse_lost
from sandbox.environments.indexes.answers import IndexFault
from sandbox.environments.indexes.gateway import Gateway
from sandbox.environments.indexes.settings import local_path
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.lock import LockedPackage
from sandbox.environments.resolution.request import Question, refuse_too_many
from sandbox.errors import BuildFailed, IndexRefused, IndexUnavailable, ResolutionFailed
from sandbox.policy import Supply

_SEEN_AT: Final = "http://127.0.0.1:8479"
"""Where the relay in the box listens (runners/builder/indexed.py)."""
_LONGEST_EXPLANATION: Final = 3000
_LONGEST_REASON: Final = 300
_ERROR: Final = re.compile(r"^error: ", re.M)
"""Where the explanation begins; warnings and how far it came are before."""
_NO_EXTRA: Final = re.compile(
    r"^warning: The package `(?P<name>[a-z0-9-]+)[^`]*` does not have an extra named `(?P<extra>[^`]+)`", re.M
)
_NO_SOLUTION: Final = re.compile(r"error: No solution found when resolving dependencies:?\s*(?:cause:)?\s*", re.S)
_UNBUILT: Final = re.compile(r"^error: (?=Failed to (download and )?build )", re.M)
"""How uv begins to tell that a source failed when it was asked for its requirements."""
_PRERELEASES: Final = re.compile(
    r"Pre-releases are available for `(?P<of>[^`\s]+)` .*?\(e\.g\., (?P<such>[^)\s]+)\)"
    r"|`(?P<asked>[^`\s]+)` was requested with a pre-release marker \(e\.g\., [^)\s]*?==(?P<named>[^)\s,]+)"
)
"""How uv hints that only releases which are not final would do."""
_NO_HINT: Final = "hint: Build failures usually indicate a problem with the package or the build environment"


def resolve_options(question: Question) -> list[str]:
    supply = question.supply
    options = ["--no-config", "--no-header", "--color", "never", "--no-progress", "--no-python-downloads"]
    options += index_options(question)
    if not supply.sdists:
        options += ["--no-build"]
    options += ["--prerelease", "allow" if supply.prereleases else "explicit"]
    if supply.exclude_newer:
        newest = datetime.now(UTC) - timedelta(seconds=supply.exclude_newer)
        options += ["--exclude-newer", newest.strftime("%Y-%m-%dT00:00:00Z")]
    return options


def index_options(question: Question) -> list[str]:
    settings = question.settings
    options = ["--index-strategy", "unsafe-first-match" if settings.goes_on else "first-index", "--link-mode", "copy"]
    urls = [f"{_SEEN_AT}/{number}/simple/" for number in range(len(settings.indexes))]
    if urls:
        options += ["--default-index", urls[-1], *(part for url in urls[:-1] for part in ("--index", url))]
    else:
        options += ["--no-index"]
    for number in range(len(settings.find_links)):
        options += ["--find-links", f"{_SEEN_AT}/links/{number}/"]
    return options


def requirement_lines(question: Question, gateway: Gateway) -> list[str]:
    """The requirements as uv is given them: a file that one names by its address is had through the gateway."""
    return [_through(gateway, line) for line in question.requirements]


def sure_names(question: Question) -> list[str]:
    """The packages that uv asks every index for, whatever it finds: those that are required by name, and always."""
    wanted = [Requirement(line) for line in question.requirements]
    return [canonicalize_name(each.name) for each in wanted if each.url is None and each.marker is None]


def _through(gateway: Gateway, line: str) -> str:
    wanted = Requirement(line)
    if wanted.url is None:
        return line
    url, _, digest = wanted.url.partition("#sha256=")
    if not urlsplit(url).path.endswith(".whl"):
        raise ResolutionFailed(
            f"{wanted.name} is asked for by the address of something that is no wheel",
            remedy="name the address of a wheel, or a version that an index has",
        )
    wanted.url = f"{_SEEN_AT}{gateway.hand_out(url, sha256=digest)}#sha256={digest}"
    return str(wanted)


def lock_text(end: JobEnd, gateway: Gateway, *, question: Question) -> str:
    """The text of uv's lock."""
    refuse_lost(end)
    if end.problem is not None or not isinstance(end.value, dict):
        raise ResolutionFailed(f"the requirements could not be resolved: {end.problem} {end.said[-500:]}".rstrip())
    said = str(end.value.get("said"))
    if end.value.get("code") == 0:
        _refuse_missing_extras(said, question)
        return str(end.value.get("lock"))
    if gateway.faults:
        raise _unanswered(gateway.faults[0])
    said = said[found.start() :] if (found := _ERROR.search(said)) else said
    if found := _UNBUILT.search(said):
        raise _unbuilt(" ".join(said[found.end() :].replace(_NO_HINT, "").split()), log=said)
    explained = _explained(said, waits=bool(question.supply.exclude_newer))
    raise _without_indexes(explained) if question.settings.offline else explained


def _refuse_missing_extras(said: str, question: Question) -> None:
    """uv leaves out an extra that a package does not have, and says so; what others than the tool ask for is theirs."""
    asked = [Requirement(line) for line in question.requirements]
    extras = {(canonicalize_name(each.name), extra) for each in asked for extra in each.extras}
    missing = [found for found in _NO_EXTRA.finditer(said) if (found["name"], found["extra"]) in extras]
    if missing:
        told = (f"{found['name']} has no extra named '{found['extra']}'" for found in missing[:20])
        raise ResolutionFailed("; ".join(told), remedy="ask for one that its documentation names, or for none")


def _unanswered(fault: IndexFault) -> IndexUnavailable:
    asked = f", asked for {fault.package}," if fault.package else ""
    message = f"the package index {fault.url}{asked} did not answer as one: {fault.reason}"
    if fault.remedy is not None:
        return IndexRefused(message, remedy=fault.remedy)
    otherwise = "try again, or ask for what is in the store or in a folder of wheels with `--offline`"
    return IndexUnavailable(message, remedy=otherwise)


def _explained(said: str, *, waits: bool) -> ResolutionFailed:
    """The resolver's own explanation, in words that mean something here, and no longer than people read."""
    text, _, hint = " ".join(_NO_SOLUTION.sub("", said).split()).removeprefix("error: ").partition(" hint: ")
    text = text.replace("in the package registry", "in any index")
    remedy = "change the requirements it names"
    if "--no-build" in hint or "has no usable wheels" in text:
        remedy = "ask for a version that has wheels, or allow builds from source in the policy: supply.sdists"
    elif "subsequent index" in hint:
        remedy = "ask for a version that the first index with that package has; no index after it is asked for it"
    elif found := _PRERELEASES.search(hint):
        name, version = found["of"] or found["asked"], found["such"] or found["named"]
        text = f"{text.removesuffix('.')}; only prereleases of {name} would do, such as {version}"
        remedy = f"name one, as {name}=={version} does, or allow them in the policy: supply.prereleases"
    elif waits and "there are no versions" in text:
        remedy = (
            "the policy's supply.exclude_newer takes only releases that are old enough, of indexes that tell when they "
            "were uploaded: change the requirements, or ask an index that tells it"
        )
    shortened = text if len(text) <= _LONGEST_EXPLANATION else text[:_LONGEST_EXPLANATION] + "…"
    return ResolutionFailed(f"the requirements have no solution: {shortened}", remedy=remedy)


def _without_indexes(explained: ResolutionFailed) -> ResolutionFailed:
    """The same, when nobody outside was asked."""
    return ResolutionFailed(
        f"offline, {explained.message}",
        remedy="put the wheels into a folder of supply.wheelhouse or of pip's find-links, or do not ask offline",
    )


def stated_packages(text: str, question: Question) -> list[Mapping[str, Any]]:
    """The packages that uv's lock names for this interpreter."""
    try:
        stated = tomllib.loads(text).get("packages", [])
        chosen = [_as_indexed(each) for each in stated if _is_for(each.get("marker"), question.interpreter)]
    except (tomllib.TOMLDecodeError, AttributeError, InvalidMarker) as error:
        raise ResolutionFailed(f"the resolver's answer cannot be read: {error}") from None
    refuse_too_many(len(chosen), question.most_packages)
    return chosen


def _as_indexed(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """A package that was asked for by the address of its wheel, written like one that an index has."""
    archive = stated.get("archive")
    if not isinstance(archive, dict):
        return stated
    try:
        _, version, _, _ = parse_wheel_filename(unquote(urlsplit(str(archive.get("url"))).path.rpartition("/")[2]))
    except InvalidWheelFilename as error:
        raise ResolutionFailed(f"{str(stated.get('name'))[:200]}: {error}") from None
    return {"version": str(version), **stated, "wheels": [archive]}


def _is_for(marker: object, interpreter: HostInterpreter) -> bool:
    """Whether this package is one of the environment's; uv leaves markers on some that it has decided about."""
    if marker is None:
        return True
    short = ".".join(interpreter.version.split(".")[:2])
    return Marker(str(marker)).evaluate({"python_version": short, "python_full_version": interpreter.version})


def locked_wheel(stated: Mapping[str, Any], gateway: Gateway, *, supply: Supply) -> tuple[LockedPackage, str]:
    name, wheels = str(stated.get("name"))[:200], stated["wheels"]
    origin = gateway.origin(str(wheels[0].get("url")))
    stated_sha256 = wheels[0].get("hashes", {}).get("sha256")
    sha256 = (origin and origin.sha256) or stated_sha256
    if origin is None or sha256 is None:
        raise ResolutionFailed(f"the index has no SHA-256 for the wheel of {name}", remedy="use an index that has")
    if stated_sha256 not in (None, sha256):
        raise ResolutionFailed(f"the wheel of {name} is not the one that the index has")
    if supply.require_hashes and origin.sha256 is None and local_path(origin.url) is None:
        raise ResolutionFailed(
            f"the index promises no SHA-256 for the wheel of {name}, and the policy takes no file without",
            remedy="use an index that does, or a policy with supply.require_hashes = false",
        )
    try:
        package = LockedPackage(
            name=canonicalize_name(name),
            version=str(stated.get("version")),
            wheel=origin.filename,
            sha256=sha256,
            size=wheels[0].get("size", origin.size),
        )
    except ValidationError as error:
        raise ResolutionFailed(f"the index's entry for {name} is not one: {error.errors()[0]['msg']}") from None
    return package, origin.url


def warnings_of(stated: Sequence[Mapping[str, Any]], gateway: Gateway) -> tuple[str, ...]:
    """What is to be said of the releases that were chosen: those that an index has taken back, which only somebody who
    names the very version gets."""
    return tuple(warning for each in stated if (warning := _warning_of(each, gateway)) is not None)


def _warning_of(stated: Mapping[str, Any], gateway: Gateway) -> str | None:
    file = (stated.get("wheels") or [stated.get("sdist") or {}])[0]
    yanked = gateway.yanked(str(file.get("url")))
    if yanked is False:
        return None
    reason = f": {' '.join(yanked.split())[:_LONGEST_REASON]}" if isinstance(yanked, str) else ""
    return f"{str(stated.get('name'))[:200]} {str(stated.get('version'))[:200]} is yanked{reason}"


def source_of(stated: Mapping[str, Any], gateway: Gateway) -> tuple[str, str, str]:
    """A package's source: its name, and its file as the box may ask for it, with the digest that the index has."""
    name, url = str(stated.get("name")), str((stated.get("sdist") or {}).get("url"))
    origin = gateway.origin(url)
    if origin is None or origin.sha256 is None or canonicalize_name(name) != name:
        raise ResolutionFailed(f"the index has neither a wheel nor a hashed source of {name[:200]}")
    return name, url, origin.sha256


def no_wheel(stated: Mapping[str, Any]) -> ResolutionFailed:
    return ResolutionFailed(
        f"{str(stated.get('name'))[:200]} {stated.get('version')} has no wheel for this interpreter and platform",
        remedy="ask for another version, or allow builds from source in the policy: supply.sdists",
    )


def refuse_unbuilt(end: JobEnd) -> None:
    refuse_lost(end)
    if end.problem is not None or not isinstance(end.value, dict):
        raise BuildFailed(f"the sources could not be built: {end.problem} {end.said[-2000:]}".rstrip(), log=end.said)
    failed = end.value.get("failed")
    if isinstance(failed, dict) and failed:
        said = "; ".join(f"{name}: {' '.join(str(text).split())[-2000:]}" for name, text in failed.items())
        raise _unbuilt(said, log="\n\n".join(f"{name}:\n{text}" for name, text in failed.items()))


def _unbuilt(said: str, *, log: str) -> BuildFailed:
    shortened = said if len(said) <= _LONGEST_EXPLANATION else "…" + said[-_LONGEST_EXPLANATION:]
    message = f"the sources could not be built, in a box without files or network of the host: {shortened}"
    return BuildFailed(message, log=log)
