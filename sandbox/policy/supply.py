"""Where a tool's requirements may come from, and what the environments made of them may cost.

Packages are strangers' code that the tool's author merely named, so the defaults take the safer half of what an index
offers: wheels, whose installation runs nothing; files whose hash is known before they are used; final releases.

A list of indexes stands in place of the machine's own, it is not added to them: a name that only one index should
answer for is then not looked up elsewhere. Credentials have no place in a policy, which is shown, printed and hashed;
they stay where pip keeps them, and a URL that holds some is refused without being repeated.
"""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, Strict

from sandbox.policy.base_model import Section, WhenEmpty
from sandbox.policy.paths import plain_path, sorted_once
from sandbox.policy.quantities import GIB, Bytes, Count, Seconds, SecondsOrZero

MOST_LISTED: Final = 1000
MOST_PLACES: Final = 64
_LONGEST_URL: Final = 2048
_URL_TEXT: Final = re.compile(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+")
_PACKAGE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")
_SCHEMES: Final = ("http", "https", "file")


def _package_name(name: str) -> str:
    if not _PACKAGE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a package's name; versions, extras and patterns have no place here")
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _index_url(url: str) -> str:
    """The address of an index in the one form that is compared; a refusal repeats nothing of it."""
    parts = _split(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "must hold no credentials, query or fragment: "
            "keep user names, passwords and tokens in netrc or in pip's own configuration"
        )
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.strip("/")):
        raise ValueError('must name a folder of this machine, such as "file:///srv/index"')
    if parts.scheme != "file" and not parts.hostname:
        raise ValueError("must name the index's host")
    return parts.geturl().rstrip("/")


def _split(url: str) -> SplitResult:
    if len(url) > _LONGEST_URL or not _URL_TEXT.fullmatch(url):
        raise ValueError('must be a URL such as "https://index.example/simple"')
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        raise ValueError("must be a URL with a valid host and port") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"must be a URL that starts with {', '.join(_SCHEMES[:-1])} or {_SCHEMES[-1]}")
    return parts._replace(netloc=parts.netloc.lower())


def _once(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


_Switch = Annotated[bool, Strict()]
_Package = Annotated[str, AfterValidator(_package_name)]
_Packages = Annotated[tuple[_Package, ...], AfterValidator(sorted_once)]
_Index = Annotated[str, AfterValidator(_index_url)]
_Indexes = Annotated[tuple[_Index, ...], AfterValidator(_once)]
_Folder = Annotated[str, AfterValidator(plain_path)]
_Folders = Annotated[tuple[_Folder, ...], AfterValidator(sorted_once)]


class Environments(Section):
    """What making an environment may cost, and how much it is trusted once it is made."""

    verify: _Switch = Field(default=False, description="every file of an environment is checked before a box gets it")
    build_time: Seconds = Field(default=15 * 60.0, description="time on the clock for building one environment")
    build_memory: Bytes = Field(default=4 * GIB, description="memory, of all processes of one build together")
    build_disk: Bytes = Field(default=8 * GIB, description="bytes of all files that one build leaves or needs")
    packages: Count = Field(default=500, description="packages in one environment, dependencies included")
    preload: _Switch = Field(
        default=True, description="what the tool's source imports is imported ahead of its calls, in its box"
    )


class Supply(Section):
    """Which packages are taken, and from where."""

    offline: _Switch = Field(
        default=False, description="no index is asked: packages come from folders of wheels and from the store"
    )
    sdists: _Switch = Field(
        default=False, description="take source distributions too, whose build runs their authors' code"
    )
    direct_references: _Switch = Field(
        default=False, description="take requirements that name a URL instead of a version"
    )
    require_hashes: _Switch = Field(default=True, description="take no file whose hash was not known before")
    prereleases: _Switch = Field(
        default=False,
        description="take prereleases of any package; else only one that a requirement names, such as name==2.0b1",
    )
    exclude_newer: SecondsOrZero = Field(
        default=0.0, description="releases younger than this are not taken; zero: none is too young"
    )
    allow: Annotated[_Packages, WhenEmpty("any")] = Field(
        default=(), max_length=MOST_LISTED, description="the only packages taken, dependencies included; none: any"
    )
    deny: _Packages = Field(
        default=(), max_length=MOST_LISTED, description="packages never taken, not as dependencies either"
    )
    indexes: Annotated[_Indexes, WhenEmpty("the machine's own")] = Field(
        default=(), max_length=MOST_PLACES, description="URLs of the indexes asked, in place of the machine's own"
    )
    wheelhouse: _Folders = Field(
        default=(), max_length=MOST_PLACES, description="folders of wheels on the host, looked through as well"
    )
