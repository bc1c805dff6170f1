"""The package sources of this machine, read from `/etc/apt`, from which images are built, too.

The reader understands both forms, the paragraphs of `*.sources` and the lines of `*.list`. Other repositories often
name their suites after the distribution's; the keyring shows which are the distribution's own: its keyring, or apt's
default without a `signed-by`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.errors import BackendUnavailable

_LINE: Final = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$")
_WANTED: Final = "main"
_SCHEMES: Final = ("http://", "https://", "file:")


@dataclass(frozen=True, slots=True)
class Archive:
    """A suite of a repository."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    def line(self, *, keyring: str) -> str:
        """Return the line of a `sources.list`."""
        return f"deb [signed-by={keyring}] {self.uri} {self.suite} {_WANTED}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of this machine, and its package sources."""

    name: str
    codename: str
    base: Archive
    updates: tuple[Archive, ...]
    """Suites with updates, security updates among them."""

    @property
    def keyring(self) -> str:
        """Return the file with the keys that sign its packages."""
        signed_by = self.base.signed_by
        return signed_by or f"/usr/share/keyrings/{self.name}-archive-keyring.gpg"

    def __str__(self) -> str:
        return f"{self.name} {self.codename}"


def this_distribution(etc: Path = Path("/etc")) -> Distribution:
    """Return this machine's distribution; raise `BackendUnavailable` if it has no Debian packages."""
    release = _release(etc)
    name, codename = release.get("ID", ""), release.get("VERSION_CODENAME", "")
    own = [each for each in read_archives(etc / "apt") if _is_own(each, name)]
    base = next((each for each in own if each.suite == codename), None)
    if not codename or base is None:
        raise BackendUnavailable(
            "images are made of Debian packages, and this machine has no source of its own distribution's: "
            f"{etc}/apt names none for {name or 'an unknown system'} {codename}".rstrip(),
            remedy="run `sandbox image bootstrap` on Debian or Ubuntu, with DOCKER_HOST naming this daemon",
        )
    return Distribution(name, codename, base, tuple(each for each in own if each.suite.startswith(f"{codename}-")))


def _release(etc: Path) -> dict[str, str]:
    try:
        lines = (etc / "os-release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _is_own(archive: Archive, name: str) -> bool:
    keyring = Path(archive.signed_by or f"{name}-archive").name
    return keyring.startswith(f"{name}-archive") and _WANTED in archive.components and archive.uri.startswith(_SCHEMES)


def read_archives(apt: Path) -> tuple[Archive, ...]:
    """All that apt takes packages from."""
    lists = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    paragraphs = sorted((apt / "sources.list.d").glob("*.sources"))
    found = [each for path in paragraphs for each in parse_paragraphs(_text(path))]
    found += [each for path in lists for each in parse_lines(_text(path).splitlines())]
    return tuple(dict.fromkeys(found))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def parse_lines(lines: Iterable[str]) -> Iterator[Archive]:
    """Yield the archives of a `sources.list`."""
    for line in lines:
        if found := _LINE.match(line.partition("#")[0].strip()):
            options = dict(pair.split("=", 1) for pair in (found["options"] or "").split() if "=" in pair)
            yield Archive(
                found["uri"], found["suite"], tuple(found["components"].split()), options.get("signed-by") or None
            )


def parse_paragraphs(text: str) -> Iterator[Archive]:
    """Yield the archives of a `*.sources` file."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        components = tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Archive(uri, suite, components, fields.get("signed-by") or None)


def _fields(paragraph: str) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}".strip()
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields
