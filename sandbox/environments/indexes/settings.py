"""Where packages come from: the indexes and folders of wheels that this machine is set up for.

The engine reads what pip and uv read: `UV_*` and `PIP_*` variables, `[global]` of pip's configuration files, and netrc.
If uv's variables name indexes or links, they hold alone; otherwise pip's do. Indexes are in order of priority: extra
indexes come before the default, and the first index that knows a package is the only one that serves it. Pip would take
the best version of any index; then anyone who registers a private package's name on a public index gets to run code
here.

Credentials are kept apart from addresses and out of every `repr`. The engine sends them only to the origin (scheme,
host, port) that they were given for. A mistyped address is refused here, where the message can name its setting: an
address must not pass for a path, because a path may be shown as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import url2pathname

from sandbox.errors import EnvironmentUnavailable

Credentials = tuple[str, str]

DEFAULT_TIMEOUT_S: Final = 30.0
MAX_TIMEOUT_S: Final = 600.0
_PORTS: Final = {"http": 80, "https": 443}
_FOLLOWED: Final = ("http", "https", "file")
_MISTYPED: Final = re.compile(r"(^|/)(https?:|//|[^/]*:.*@)|^[^/.~][^/]*@", re.IGNORECASE)
"""Text that looks like an address without being one: one slash or none after the scheme, or a login within a path."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index: a page for each package below its address (PEP 503)."""

    url: str
    credentials: Credentials | None = field(default=None, repr=False)

    @property
    def url_with_login(self) -> str:
        """The address as uv is given it."""
        if self.credentials is None:
            return self.url
        parts = urlsplit(self.url)
        login = ":".join(quote(part, safe="") for part in self.credentials)
        return parts._replace(netloc=f"{login}@{parts.netloc}").geturl()


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages come from, and how to reach it."""

    indexes: tuple[Index, ...] = ()
    """The named indexes in order of priority."""
    asks_default: bool = False
    """Whether uv's own default index comes after the named ones."""
    find_links: tuple[str, ...] = ()
    """Folders of wheels, and pages that link to files of any package."""
    certificates: Path | None = None
    """The authorities to trust, a file or a folder of them; without it the system's."""
    unchecked_hosts: frozenset[str] = frozenset()
    """Hosts, with a port or without, whose certificates are not checked."""
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """This machine's own proxies by scheme, and under `no` the hosts that are reached without."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long an index may keep silent."""
    offline: bool = False
    """Whether no network is asked, and only folders and `file:` indexes are left."""
    logins: Mapping[str, Credentials] = field(default_factory=dict, repr=False)
    """Logins for addresses without one: by origin, or by host as in netrc."""

    @property
    def reachable_indexes(self) -> tuple[Index, ...]:
        """The indexes that are asked: offline only those of this machine."""
        return tuple(each for each in self.indexes if not self.offline or local_path(each.url) is not None)

    @property
    def reachable_links(self) -> tuple[str, ...]:
        """The folders and pages of links that are looked through."""
        return tuple(each for each in self.find_links if not self.offline or local_path(each) is not None)

    @property
    def trusted_origins(self) -> frozenset[tuple[str, int]]:
        """Host and port of all that this machine or the policy names, which may be at any address."""
        urls = [*(index.url for index in self.indexes), *self.find_links]
        return frozenset(_host_and_port(url) for url in urls if local_path(url) is None)

    @property
    def has_logins(self) -> bool:
        """Whether any configured place is asked with a login."""
        links = (self.credentials_for(url) for url in self.find_links if local_path(url) is None)
        return any(index.credentials for index in self.indexes) or any(links)

    def credentials_for(self, url: str) -> Credentials | None:
        """Return the login that was given for this address's origin."""
        place = origin_of(url)
        for index in self.indexes:
            if index.credentials is not None and origin_of(index.url) == place:
                return index.credentials
        return self.logins.get(place) or self.logins.get(urlsplit(url).hostname or "")

    def is_unchecked(self, host: str, port: int) -> bool:
        """Whether that host may show any certificate."""
        return not self.unchecked_hosts.isdisjoint((host.lower(), f"{host.lower()}:{port}"))

    def without_secrets(self, text: str) -> str:
        """Return the text with every known password masked."""
        logins = [*(index.credentials for index in self.indexes), *self.logins.values()]
        passwords = {part for login in logins if login for part in (login[1], quote(login[1], safe="")) if part}
        for password in sorted(passwords, key=len, reverse=True):
            text = text.replace(password, "****")
        return text


def read_index_settings(
    environ: Mapping[str, str], *, home: Path, etc: Path = Path("/etc"), prefix: Path | None = None
) -> IndexSettings:
    """Return what pip and uv of this machine are set to; `prefix` is the interpreter's, whose `pip.conf` counts too."""
    from sandbox.environments.indexes.sources import read_sources

    named = read_sources(environ, home=home, etc=etc, prefix=prefix)
    logins = dict(named.logins)
    logins.update((origin_of(url), login) for url in named.find_links if (login := split_credentials(url)[1]))
    links = [_location(url, home=home, said_by=f"{named.tool}'s find-links") for url in named.find_links]
    urls = [(url, f"{named.tool}'s extra-index-url") for url in named.extras]
    if named.default:
        urls.append((named.default, f"{named.tool}'s index-url"))
    indexes: dict[str, Index] = {}
    for url, said_by in urls:
        index = _index(url, logins, said_by=said_by)
        indexes.setdefault(index.url, index)
    return IndexSettings(
        indexes=() if named.no_index else tuple(indexes.values()),
        asks_default=not named.default and not named.no_index,
        find_links=tuple(dict.fromkeys(links)),
        certificates=named.certificates,
        unchecked_hosts=frozenset(_host(text) for text in named.unchecked_hosts),
        proxies=named.proxies,
        timeout_s=min(named.timeout_s or DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S),
        offline=named.offline,
        logins=logins,
    )


def settings_for(urls: Iterable[str], base: IndexSettings, *, wheelhouse: Iterable[str] = ()) -> IndexSettings:
    """Return the machine's settings with these indexes, if there are any, in place of its own indexes and links.

    Certificates, proxies and logins stay the machine's. Folders of wheels are looked through in any case.
    """
    folders = tuple(str(folder) for folder in wheelhouse)
    said_by = "the policy's supply.indexes"
    indexes = tuple(_index(url, base.logins, known=base.indexes, said_by=said_by) for url in urls)
    if not indexes:
        return replace(base, find_links=tuple(dict.fromkeys(folders + base.find_links)))
    logins = dict(base.logins)
    logins.update((origin_of(index.url), index.credentials) for index in base.indexes if index.credentials)
    return replace(base, indexes=indexes, asks_default=False, find_links=folders, logins=logins)


def redacted(url: str) -> str:
    """Return the address without what may be secret in it: user, password, query and fragment.

    A mistyped address loses all that stands before an `@`, because that may be a login.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be read)"
    host = parts.netloc.rpartition("@")[2]
    if _may_hold_login(parts):
        return f"…@{parts.path.rpartition('@')[2]}"
    return parts._replace(netloc=host, query="…" if parts.query else "", fragment="").geturl()


def _may_hold_login(parts: SplitResult) -> bool:
    """Whether text that was read as a path, and perhaps as a host and its port, may be a login."""
    before, at, _ = parts.path.rpartition("@")
    if not at or parts.netloc:
        return bool(at) and ":" in parts.netloc
    return parts.scheme not in ("", "file") or ":" in before or before[:1] not in ("/", ".", "~")


def split_credentials(url: str) -> tuple[str, Credentials | None]:
    """Return the address and the login that it held."""
    parts = _parts(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    return parts._replace(netloc=host).geturl(), (unquote(user), unquote(password)) if at else None


def origin_of(url: str) -> str:
    """Return scheme, host and port: a login for this address is sent nowhere else."""
    parts = _parts(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or _PORTS.get(parts.scheme, '')}"


def local_path(url: str) -> Path | None:
    """Return the path that a `file:` address or a plain path names, and None for an address on a network."""
    if not _is_address(url):
        return Path(url)
    parts = _parts(url)
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise EnvironmentUnavailable(
            f"{redacted(url)} names a file of another machine", remedy="write file:/// and a path"
        )
    return Path(url2pathname(parts.path))


def _host_and_port(url: str) -> tuple[str, int]:
    parts = _parts(url)
    return (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)


def _is_address(text: str) -> bool:
    return "://" in text or text[:5].lower() == "file:"


def _refuse_mistyped(text: str, *, said_by: str) -> None:
    """Raise for text that is neither a path nor an address that can be followed."""
    is_wrong = _parts(text).scheme not in _FOLLOWED if _is_address(text) else _MISTYPED.search(text)
    if is_wrong:
        raise EnvironmentUnavailable(
            f"{said_by} holds neither an index's address nor a folder: {redacted(text)}",
            remedy="correct it: an address begins with https:// or http://, or with file:// and names a folder",
        )
    local_path(text)  # raises for a file of another machine


def _index(url: str, logins: Mapping[str, Credentials], *, said_by: str, known: tuple[Index, ...] = ()) -> Index:
    """Return the index; its login is its own, else that of an index the machine knows, else netrc's."""
    _refuse_mistyped(url, said_by=said_by)
    address, login = split_credentials(url if _is_address(url) else Path(url).absolute().as_uri())
    address = address.rstrip("/")
    if login is None:
        same = [index.credentials for index in known if origin_of(index.url) == origin_of(address)]
        login = next((credentials for credentials in same if credentials), None)
    host = urlsplit(address).hostname or ""
    return Index(url=address, credentials=login or logins.get(origin_of(address)) or logins.get(host))


def _location(url: str, *, home: Path, said_by: str) -> str:
    """Return a folder's absolute path, or a page's address without its login."""
    _refuse_mistyped(url, said_by=said_by)
    path = local_path(url)
    if path is None:
        return split_credentials(url)[0]
    if path.parts[:1] == ("~",):
        path = home.joinpath(*path.parts[1:])
    return os.path.abspath(path)


def _host(text: str) -> str:
    """Return a host, with its port if there is one, however it is written."""
    try:
        parts = _parts(text if "://" in text else f"//{text}")
    except EnvironmentUnavailable:
        raise EnvironmentUnavailable(
            "a host whose certificates are not to be checked cannot be read",
            remedy="correct pip's trusted-host, or UV_INSECURE_HOST: a name, or a name and a port",
        ) from None
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""


def _parts(url: str) -> SplitResult:
    """Split the address; the error for one that cannot be split does not repeat it."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        raise EnvironmentUnavailable(
            f"the address of an index cannot be read: {redacted(url)}",
            remedy="correct it in pip's or uv's settings",
        ) from None
    return parts
