"""uv's command line and variables, and the reading of uv's answer.

The answer is text that a hostile package may have had a hand in, so every field is checked: an address must be one of a
network or of a folder that the box was shown, and a wheel without a hash ends the resolution. Where there is no answer,
uv's own explanation is passed on, without the parts that only mean something inside the box.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pydantic import ValidationError

from sandbox.environments.build_jobs import JobEnd, refuse_lost
from sandbox.environments.indexes.client import CORRECT_FILES, Fault, login_refused, refused_by_egress
from sandbox.environments.indexes.local_places import LocalPlaces
from sandbox.environments.indexes.settings import Index, IndexSettings, local_path, redacted, split_credentials
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.lock import LockedPackage
from sandbox.environments.resolution.request import ResolveRequest, refuse_too_many
from sandbox.errors import BuildFailed, IndexRefused, IndexUnavailable, ResolutionFailed
from sandbox.policy import Supply

CERTIFICATES: Final = "/certificates"
"""Where a box sees the authorities to trust."""
_RETRIES: Final = "2"
_MAX_EXPLANATION: Final = 3000
_MAX_REASON: Final = 300
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


_FETCHED: Final = re.compile(
    r"(?:Failed to fetch:|unexpected \w+ from|An index URL) [`(]?(?P<url>(?:https?|file):[^\s`)]+)"
)
"""The address that uv names when an index does not do its part."""
_STATUS: Final = re.compile(r"HTTP status \w+ error \((?P<status>\d{3})|\((?P<refused>401|403) \w+\)")
_YANKED: Final = re.compile(r"^warning: `(?P<what>[^`]+)` is yanked(?: \(reason: \"(?P<why>[\s\S]*?)\"\)$)?", re.M)


@dataclass(frozen=True, slots=True)
class Answer:
    """uv's lock, and what goes with it."""

    text: str
    said: str
    promised: frozenset[str]
    """The hashes that stand in a page of an index."""


def resolve_options(question: ResolveRequest, *, builds: bool) -> list[str]:
    """The options of a resolution, which may or may not build sources to learn what they require."""
    supply = question.supply
    options = ["--no-config", "--no-header", "--color", "never", "--no-progress", "--no-python-downloads"]
    options += index_options(question.settings)
    if not builds:
        options += ["--no-build"]
    options += ["--prerelease", "allow" if supply.prereleases else "explicit"]
    if supply.exclude_newer:
        newest = datetime.now(UTC) - timedelta(seconds=supply.exclude_newer)
        options += ["--exclude-newer", newest.strftime("%Y-%m-%dT00:00:00Z")]
    return options


def index_options(settings: IndexSettings) -> list[str]:
    """Options that no variable stands for; which indexes there are is in the variables."""
    options = ["--link-mode", "copy"]
    if settings.offline:
        options += ["--offline"]
    if not settings.reachable_indexes and (settings.offline or not settings.asks_default):
        options += ["--no-index"]
    return options


def index_variables(settings: IndexSettings, places: LocalPlaces, *, has_logins: bool) -> dict[str, str]:
    """The variables by which uv in a box knows the indexes."""
    urls = [
        places.urls.get(index.url) or (index.url_with_login if has_logins else index.url)
        for index in settings.reachable_indexes
    ]
    asks_default = settings.asks_default and not settings.offline
    default = [] if asks_default or not urls else [urls.pop()]
    links = [_link(settings, link, places, has_logins=has_logins) for link in settings.reachable_links]
    found = {
        "UV_INDEX": " ".join(urls),
        "UV_DEFAULT_INDEX": "".join(default),
        "UV_FIND_LINKS": ",".join(link for link in links if link),
        "UV_INSECURE_HOST": " ".join(sorted(settings.unchecked_hosts)),
        "UV_HTTP_TIMEOUT": str(max(round(settings.timeout_s), 1)),
        "UV_HTTP_RETRIES": _RETRIES,
    }
    certificates = certificates_of(settings)
    if certificates is not None:
        found["SSL_CERT_DIR" if certificates.is_dir() else "SSL_CERT_FILE"] = CERTIFICATES
    return {name: text for name, text in found.items() if text}


def certificates_of(settings: IndexSettings) -> Path | None:
    """The authorities that uv is to trust: those that are named, else the system's, else uv's own."""
    import ssl

    if settings.certificates is not None:
        return settings.certificates
    system = ssl.get_default_verify_paths().cafile
    return Path(system) if system else None


def _link(settings: IndexSettings, link: str, places: LocalPlaces, *, has_logins: bool) -> str:
    """A folder or page of links as uv in the box is given it; a missing folder holds nothing."""
    if local_path(link) is not None:
        return places.links.get(link, "")
    return Index(link, settings.credentials_for(link) if has_logins else None).url_with_login


def requirement_lines(question: ResolveRequest) -> list[str]:
    """The requirements as uv is given them; of addresses only those of wheels are taken."""
    for line in question.requirements:
        wanted = Requirement(line)
        if wanted.url is not None and not urlsplit(wanted.url).path.endswith(".whl"):
            raise ResolutionFailed(
                f"{wanted.name} is asked for by the address of something that is no wheel",
                remedy="name the address of a wheel, or a version that an index has",
            )
    return [*question.requirements]


def read_answer(end: JobEnd, question: ResolveRequest, *, refused: Sequence[tuple[str, str]], builds: bool) -> Answer:
    """Return uv's answer; raise what prevented one."""
    refuse_lost(end)
    if end.problem is not None or not isinstance(end.value, dict):
        raise ResolutionFailed(f"the requirements could not be resolved: {end.problem} {end.said[-500:]}".rstrip())
    said = question.settings.without_secrets(str(end.value.get("said")))
    if end.value.get("code") == 0:
        _refuse_missing_extras(said, question)
        listed = end.value.get("promised")
        promised = frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()
        return Answer(str(end.value.get("lock")), said, promised)
    said = said[found.start() :] if (found := _ERROR.search(said)) else said
    if found := _UNBUILT.search(said):
        raise _unbuilt(" ".join(said[found.end() :].replace(_NO_HINT, "").split()), log=said)
    problem = _index_problem(said, question, refused=refused, builds=builds)
    if problem is not None:
        raise problem
    explained = _explained(said, waits=bool(question.supply.exclude_newer))
    raise _without_indexes(explained) if question.settings.offline else explained


def _index_problem(
    said: str, question: ResolveRequest, *, refused: Sequence[tuple[str, str]], builds: bool
) -> IndexUnavailable | IndexRefused | None:
    """Return the error for an index that did not do its part, if uv speaks of one."""
    found = _FETCHED.search(said)
    if found is None:
        return None
    url = redacted(found["url"])
    named = [index.url for index in question.settings.indexes if f"{url}/".startswith(f"{index.url}/")]
    place = max(named, key=len, default=url)
    package = url.removeprefix(place).strip("/") if named else ""
    asked = f", asked for {package}," if package else ""
    fault = _fault(said, question.settings, host=urlsplit(url).hostname or "", refused=refused, url=found["url"])
    message = f"the package index {place}{asked} did not answer as one: {fault.reason}"
    if fault.remedy is not None:
        is_withheld = builds and question.settings.has_logins and "login" in fault.reason
        remedy = "take wheels only: boxes that build sources are given no login" if is_withheld else fault.remedy
        return IndexRefused(message, remedy=remedy)
    otherwise = "try again, or ask for what is in the store or in a folder of wheels with `--offline`"
    return IndexUnavailable(message, remedy=otherwise)


def _fault(said: str, settings: IndexSettings, *, host: str, refused: Sequence[tuple[str, str]], url: str) -> Fault:
    """The fault that uv's words mean."""
    if refused:
        forbidden, reason = refused[0]
        return refused_by_egress(reason, forbidden)
    found = _STATUS.search(said)
    status = int(found["status"] or found["refused"]) if found else 0
    if status in (401, 403):
        return login_refused(status, has_login=bool(settings.credentials_for(split_credentials(url)[0])))
    if status == 502:
        return Fault(f"no connection to {host}")
    if status:
        return Fault(f"it answers {status}")
    if "certificate" in said:
        return Fault(
            "its certificate is not trusted; name its authority by PIP_CERT or SSL_CERT_FILE", remedy=CORRECT_FILES
        )
    if "timed out" in said:
        return Fault(f"no answer within {settings.timeout_s:g} s")
    if "JSON" in said:
        return Fault("it answers with half a page, or with something that is no JSON")
    return Fault(f"no connection to {host}")


def _refuse_missing_extras(said: str, question: ResolveRequest) -> None:
    """uv leaves out an extra that a package does not have, and says so; what others than the tool ask for is theirs."""
    asked = [Requirement(line) for line in question.requirements]
    extras = {(canonicalize_name(each.name), extra) for each in asked for extra in each.extras}
    missing = [found for found in _NO_EXTRA.finditer(said) if (found["name"], found["extra"]) in extras]
    if missing:
        told = (f"{found['name']} has no extra named '{found['extra']}'" for found in missing[:20])
        raise ResolutionFailed("; ".join(told), remedy="ask for one that its documentation names, or for none")


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
    shortened = text if len(text) <= _MAX_EXPLANATION else text[:_MAX_EXPLANATION] + "…"
    return ResolutionFailed(f"the requirements have no solution: {shortened}", remedy=remedy)


def _without_indexes(explained: ResolutionFailed) -> ResolutionFailed:
    """Return the same error for a resolution that asked no network."""
    return ResolutionFailed(
        f"offline, {explained.message}",
        remedy="put the wheels into a folder of supply.wheelhouse or of pip's find-links, or do not ask offline",
    )


def stated_packages(text: str, question: ResolveRequest) -> list[Mapping[str, Any]]:
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


def locked_wheel(
    stated: Mapping[str, Any], places: LocalPlaces, promised: frozenset[str], *, supply: Supply
) -> tuple[LockedPackage, str]:
    """The wheel that uv chose of a package, and its address."""
    name, wheel = str(stated.get("name"))[:200], stated["wheels"][0]
    origin, file = _origin(wheel, places, name=name)
    sha256 = wheel.get("hashes", {}).get("sha256") or _sha256_of(file)
    if sha256 is None:
        raise ResolutionFailed(f"the index has no SHA-256 for the wheel of {name}", remedy="use an index that has")
    if supply.require_hashes and file is None and sha256 not in promised and "archive" not in stated:
        raise ResolutionFailed(
            f"the index promises no SHA-256 for the wheel of {name}, and the policy takes no file without",
            remedy="use an index that does, or a policy with supply.require_hashes = false",
        )
    try:
        package = LockedPackage(
            name=canonicalize_name(name),
            version=str(stated.get("version")),
            wheel=unquote(urlsplit(origin).path.rpartition("/")[2]),
            sha256=sha256,
            size=wheel.get("size") or (file.stat().st_size if file else None),
        )
    except ValidationError as error:
        raise ResolutionFailed(f"the index's entry for {name} is not one: {error.errors()[0]['msg']}") from None
    return package, origin


def _origin(stated: Mapping[str, Any], places: LocalPlaces, *, name: str) -> tuple[str, Path | None]:
    """The address of a file as the engine asks for it, and its path if it is on this machine."""
    url = str(stated.get("url") or f"file://{stated.get('path')}")
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https"):
        return split_credentials(url)[0].partition("#")[0], None
    file = places.on_host(url) if scheme == "file" else None
    if file is None or not file.is_file():
        raise ResolutionFailed(
            f"the index names a file of this machine for {name} that is not in its own folder",
            remedy="use an index whose pages link to files next to them",
        )
    return file.absolute().as_uri(), file


def _sha256_of(file: Path | None) -> str | None:
    if file is None:
        return None
    with file.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def yanked_releases(answer: Answer) -> tuple[str, ...]:
    """Warnings of chosen releases that an index took back: only a requirement that names the version gets these."""
    return tuple(
        f"{found['what'].replace('==', ' ', 1)[:400]} is yanked"
        + (f": {' '.join(found['why'].split())[:_MAX_REASON]}" if found["why"] else "")
        for found in _YANKED.finditer(answer.said)
    )


def source_of(stated: Mapping[str, Any], places: LocalPlaces) -> tuple[str, str, str]:
    """The source of a package: its name, its address, and its digest."""
    name, sdist = str(stated.get("name")), stated.get("sdist") or {}
    sha256 = sdist.get("hashes", {}).get("sha256")
    if not sdist or canonicalize_name(name) != name:
        raise ResolutionFailed(f"the index has neither a wheel nor a hashed source of {name[:200]}")
    origin, file = _origin(sdist, places, name=name)
    sha256 = sha256 or _sha256_of(file)
    if sha256 is None:
        raise ResolutionFailed(f"the index has neither a wheel nor a hashed source of {name[:200]}")
    return name, origin, sha256


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
    shortened = said if len(said) <= _MAX_EXPLANATION else "…" + said[-_MAX_EXPLANATION:]
    message = f"the sources could not be built, in a box without files or network of the host: {shortened}"
    return BuildFailed(message, log=log)
