"""Package sources of a tool, and limits of the environments that are built from them.

Packages are foreign code that the tool's author merely named, so the defaults accept the safer half of an index:
wheels, whose installation runs no code; files whose hash is known before use; final releases.

A list of indexes replaces the machine's own list and does not add to it, so that a private package name is never looked
up elsewhere. A policy holds no credentials, because policies are shown, printed and hashed; credentials stay where pip
keeps them. A URL with credentials is refused without being repeated.
"""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, Strict

from sandbox.policy.base_model import EmptyMeaning, Section
from sandbox.policy.paths import check_path, sort_unique
from sandbox.policy.quantities import GIB, Bytes, Count, Seconds, SecondsOrZero

MAX_PACKAGES: Final = 1000
MAX_INDEXES: Final = 64
_MAX_URL: Final = 2048
_URL_TEXT: Final = re.compile(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+")
_PACKAGE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")
_SCHEMES: Final = ("http", "https", "file")


def _normalize_package(name: str) -> str:
    if not _PACKAGE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a package's name; versions, extras and patterns have no place here")
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _normalize_index(url: str) -> str:
    """Return the URL of an index in its normal form. A refusal repeats no part of the URL."""
    parts = _split_url(url)
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


def _split_url(url: str) -> SplitResult:
    if len(url) > _MAX_URL or not _URL_TEXT.fullmatch(url):
        raise ValueError('must be a URL such as "https://index.example/simple"')
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading the port checks it
    except ValueError:
        raise ValueError("must be a URL with a valid host and port") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"must be a URL that starts with {', '.join(_SCHEMES[:-1])} or {_SCHEMES[-1]}")
    return parts._replace(netloc=parts.netloc.lower())


def _drop_repeated(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


_Switch = Annotated[bool, Strict()]
_Package = Annotated[str, AfterValidator(_normalize_package)]
_Packages = Annotated[tuple[_Package, ...], AfterValidator(sort_unique)]
_Index = Annotated[str, AfterValidator(_normalize_index)]
_Indexes = Annotated[tuple[_Index, ...], AfterValidator(_drop_repeated)]
_Folder = Annotated[str, AfterValidator(check_path)]
_Folders = Annotated[tuple[_Folder, ...], AfterValidator(sort_unique)]


class Environments(Section):
    """Limits of building an environment, and the checks of a built one."""

    verify: _Switch = Field(default=False, description="check every file of an environment before a box gets it")
    build_time: Seconds = Field(default=15 * 60.0, description="time on the clock for building one environment")
    build_memory: Bytes = Field(default=4 * GIB, description="memory of all processes of one build together")
    build_disk: Bytes = Field(default=8 * GIB, description="bytes of all files that one build keeps or needs")
    packages: Count = Field(default=500, description="packages in one environment, including dependencies")
    preload: _Switch = Field(
        default=True, description="import the modules of the tool's source in its box before the calls come"
    )


class Supply(Section):
    """The accepted packages and their sources."""

    offline: _Switch = Field(
        default=False, description="ask no index: packages come from folders of wheels and from the store"
    )
    sdists: _Switch = Field(
        default=False, description="accept source distributions too, whose build runs their authors' code"
    )
    direct_references: _Switch = Field(
        default=False, description="accept requirements that name a URL instead of a version"
    )
    require_hashes: _Switch = Field(
        default=True, description="accept only files whose hash is known before the download"
    )
    prereleases: _Switch = Field(
        default=False,
        description="accept prereleases of any package; otherwise only if a requirement names one, such as name==2.0b1",
    )
    exclude_newer: SecondsOrZero = Field(default=0.0, description="minimum age of a release; zero: any age")
    allow: Annotated[_Packages, EmptyMeaning("any")] = Field(
        default=(),
        max_length=MAX_PACKAGES,
        description="the only accepted packages, including dependencies; empty: any",
    )
    deny: _Packages = Field(
        default=(), max_length=MAX_PACKAGES, description="packages that are never accepted, not even as dependencies"
    )
    indexes: Annotated[_Indexes, EmptyMeaning("the machine's own")] = Field(
        default=(), max_length=MAX_INDEXES, description="URLs of the indexes, instead of the machine's own"
    )
    wheelhouse: _Folders = Field(
        default=(), max_length=MAX_INDEXES, description="folders of wheels on the host, searched as well"
    )
