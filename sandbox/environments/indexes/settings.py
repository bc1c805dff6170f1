"""Where packages come from: the indexes and folders of wheels that this machine is set up for.

Whoever runs the engine has told pip or uv already which indexes there are, how to log in, which certificates to trust
and which proxy to take; nobody should have to say it twice. If uv was told where packages are, its word holds, as when
uv itself runs; otherwise pip's. Either way the engine reads it, never the box: a box knows numbers instead of indexes.

Indexes are in order of priority: extra ones come before the default, and the first that has a release which fits is
the one it comes from. Pip takes the best version of any index: then whoever registers a private package's name on the
public index, with a higher version, gets to run code here. Where uv or a policy names the indexes, uv's own rule holds,
which is stricter still: an index that knows a package is the only one asked for it, whether its releases fit or not.

Credentials are kept apart from addresses, out of every `repr`, and are sent only to the origin (scheme, host, port)
that they were given for. What is neither a path nor an address that can be followed is refused here, where it can be
said which setting it is of; a mistyped address must not pass for a path, which may be shown as it is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import url2pathname

from sandbox.environments.indexes.public_index import public_index
from sandbox.errors import EnvironmentUnavailable

Credentials = tuple[str, str]

DEFAULT_TIMEOUT_S: Final = 30.0
_LONGEST_TIMEOUT_S: Final = 600.0
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PORTS: Final = {"http": 80, "https": 443}
_FOLLOWED: Final = ("http", "https", "file")
_MISTYPED: Final = re.compile(r"(^|/)(https?:|//|[^/]*:.*@)|^[^/.~][^/]*@", re.IGNORECASE)
"""What looks like an address without being one: its scheme has one slash or none, or a login stands in a path."""


@dataclass(frozen=True, slots=True)
class Index:
    """One index: a page for each package below its address (PEP 503)."""

    url: str
    credentials: Credentials | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages come from, and how to get at it."""

    indexes: tuple[Index, ...] = ()
    """In order of priority."""
    find_links: tuple[str, ...] = ()
    """Folders of wheels, and pages that link to files of any package."""
    certificates: Path | None = None
    """The authorities to trust, a file or a folder of them; none: those that come with `requests`, and the system's."""
    client_certificate: Path | None = None
    """Shown, with its key, which is in the same file, to an index that asks who we are by TLS."""
    unchecked_hosts: frozenset[str] = frozenset()
    """Hosts, with a port or without, whose certificates are not checked."""
    asks_keyring: bool = False
    """Whether the password of a login that has none is asked of the program `keyring`."""
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By scheme, and under `no` the hosts that are reached without."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long an index may keep silent."""
    goes_on: bool = False
    """Whether a later index is asked where an earlier one has the package and no release of it that fits."""
    offline: bool = False
    """Nothing is asked over a network: only folders and `file:` indexes are left."""
    logins: Mapping[str, Credentials] = field(default_factory=dict, repr=False)
    """For what has none of its own: by origin, or by host as netrc has them."""

    def credentials_for(self, url: str) -> Credentials | None:
        """Whom to log in as where this address leads, if anyone was named for that origin."""
        place = origin_of(url)
        for index in self.indexes:
            if index.credentials is not None and origin_of(index.url) == place:
                return index.credentials
        return self.logins.get(place) or self.logins.get(urlsplit(url).hostname or "")


@dataclass(frozen=True, slots=True)
class Locations:
    """What one tool's configuration says; URLs still hold their credentials."""

    indexes: tuple[str, ...] = field(default=(), repr=False)
    default: str | None = field(default=None, repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    offline: bool = False
    certificates: str | None = None
    client_certificate: str | None = None
    unchecked_hosts: tuple[str, ...] = ()
    keyring: str | None = None
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float | None = None

    def says_where(self) -> bool:
        return bool(self.indexes or self.default or self.find_links or self.no_index)


def read_index_settings(
    environ: Mapping[str, str], *, home: Path, etc: Path = Path("/etc"), prefix: Path | None = None
) -> IndexSettings:
    """What pip and uv of this machine are told; `prefix` is the interpreter's, whose own `pip.conf` counts as well."""
    from sandbox.environments.indexes.pip_settings import read_pip_locations
    from sandbox.environments.indexes.uv_settings import read_uv_locations

    uv = read_uv_locations(environ, home=home, etc=etc)
    pip = read_pip_locations(environ, home=home, etc=etc, prefix=prefix or Path(sys.prefix))
    where, tool = (uv, "uv") if uv.says_where() else (pip, "pip")
    logins = _netrc_logins(environ, home=home)
    places = [_location(url, home=home, said_by=f"{tool}'s find-links") for url in where.find_links]
    logins.update((origin_of(url), login) for url in where.find_links if (login := split_credentials(url)[1]))
    settings = IndexSettings(
        find_links=tuple(dict.fromkeys(places)),
        certificates=_certificates(environ, uv=uv, pip=pip),
        client_certificate=_path(pip.client_certificate or uv.client_certificate, home=home),
        unchecked_hosts=frozenset(_host(text) for text in where.unchecked_hosts),
        asks_keyring=where.keyring == "subprocess",
        proxies={**_environment_proxies(environ), **pip.proxies, **uv.proxies},
        timeout_s=min(uv.timeout_s or pip.timeout_s or DEFAULT_TIMEOUT_S, _LONGEST_TIMEOUT_S),
        goes_on=where is pip,
        offline=uv.offline,
        logins=logins,
    )
    return settings if where.no_index else replace(settings, indexes=_indexes(where, logins, tool=tool))


def settings_for(urls: Iterable[str], base: IndexSettings, *, wheelhouse: Iterable[str] = ()) -> IndexSettings:
    """The machine's settings, with these indexes, if any are named, in place of its own indexes and links.

    Certificates, proxies and logins stay the machine's. Folders of wheels are looked through in any case.
    """
    folders = tuple(str(folder) for folder in wheelhouse)
    said_by = "the policy's supply.indexes"
    indexes = tuple(_index(url, base.logins, known=base.indexes, said_by=said_by) for url in urls)
    if not indexes:
        return replace(base, find_links=tuple(dict.fromkeys(folders + base.find_links)))
    logins = dict(base.logins)
    logins.update((origin_of(index.url), index.credentials) for index in base.indexes if index.credentials)
    return replace(base, indexes=indexes, find_links=folders, logins=logins, goes_on=False)


def read_settings_file(path: Path) -> str:
    """Return the text of a configuration file; a pipe, which might never end, is an `OSError`."""
    if stat.S_ISFIFO(path.stat().st_mode) or path.is_socket():
        raise OSError(errno.EINVAL, "Not a regular file")
    return path.read_text()


def redacted(url: str) -> str:
    """The address without what may be secret in it: user, password, query and fragment.

    Of one that is mistyped all that stands before an `@` goes, since that may be a login.
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
    """Whether what was read as a path, and perhaps as a host and its port, may be a login."""
    before, at, _ = parts.path.rpartition("@")
    if not at or parts.netloc:
        return bool(at) and ":" in parts.netloc
    return parts.scheme not in ("", "file") or ":" in before or before[:1] not in ("/", ".", "~")


def split_credentials(url: str) -> tuple[str, Credentials | None]:
    """The address and the login it held."""
    parts = _parts(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    return parts._replace(netloc=host).geturl(), (unquote(user), unquote(password)) if at else None


def origin_of(url: str) -> str:
    """Scheme, host and port: who is told a secret that is meant for this address."""
    parts = _parts(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or _PORTS.get(parts.scheme, '')}"


def local_path(url: str) -> Path | None:
    """The path that a `file:` address or a plain path names; none for what is on a network."""
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


def _is_address(text: str) -> bool:
    return "://" in text or text[:5].lower() == "file:"


def _refuse_mistyped(text: str, *, said_by: str) -> None:
    """Refuse what is neither a path nor an address that can be followed."""
    is_wrong = _parts(text).scheme not in _FOLLOWED if _is_address(text) else _MISTYPED.search(text)
    if is_wrong:
        raise EnvironmentUnavailable(
            f"{said_by} holds what is no address of an index, nor a folder: {redacted(text)}",
            remedy="correct it: an address begins with https:// or http://, or with file:// and names a folder",
        )
    local_path(text)  # of another machine's files there are none


def _indexes(where: Locations, logins: Mapping[str, Credentials], *, tool: str) -> tuple[Index, ...]:
    named = [(url, f"{tool}'s extra-index-url") for url in where.indexes]
    named.append((where.default or public_index(), f"{tool}'s index-url"))
    found: dict[str, Index] = {}
    for url, said_by in named:
        index = _index(url, logins, said_by=said_by)
        found.setdefault(index.url, index)
    return tuple(found.values())


def _index(url: str, logins: Mapping[str, Credentials], *, said_by: str, known: tuple[Index, ...] = ()) -> Index:
    """Its login is its own, else that of an index the machine knows, else netrc's."""
    _refuse_mistyped(url, said_by=said_by)
    address, login = split_credentials(url if _is_address(url) else Path(url).absolute().as_uri())
    address = address.rstrip("/")
    if login is None:
        same = [index.credentials for index in known if origin_of(index.url) == origin_of(address)]
        login = next((credentials for credentials in same if credentials), None)
    host = urlsplit(address).hostname or ""
    return Index(url=address, credentials=login or logins.get(origin_of(address)) or logins.get(host))


def _location(url: str, *, home: Path, said_by: str) -> str:
    """A folder's absolute path, or a page's address without its login."""
    _refuse_mistyped(url, said_by=said_by)
    path = local_path(url)
    if path is None:
        return split_credentials(url)[0]
    if path.parts[:1] == ("~",):
        path = home.joinpath(*path.parts[1:])
    return os.path.abspath(path)


def _path(text: str | None, *, home: Path) -> Path | None:
    return home.joinpath(text[2:]) if text and text.startswith("~/") else Path(text) if text else None


def _host(text: str) -> str:
    """A host, with its port if one is said, however it is written: as a name, with a port, or as an address."""
    try:
        parts = _parts(text if "://" in text else f"//{text}")
    except EnvironmentUnavailable:
        raise EnvironmentUnavailable(
            "a host whose certificates are not to be checked cannot be read",
            remedy="correct pip's trusted-host, or uv's allow-insecure-host: a name, or a name and a port",
        ) from None
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""


def _certificates(environ: Mapping[str, str], *, uv: Locations, pip: Locations) -> Path | None:
    """What pip is told goes first: it is told so for its indexes alone, the others for all that goes by TLS."""
    named = [pip.certificates, uv.certificates, *(environ.get(name) for name in _CERTIFICATES)]
    return next((Path(name) for name in named if name), None)


def _environment_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """As every program has them; the lower case wins, and `all` stands for both schemes."""
    names = ("all", "http", "https", "no")
    said = {name: environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY") for name in names}
    both = said.pop("all")
    found = {"http": said["http"] or both, "https": said["https"] or both, "no": said["no"]}
    return {name: value for name, value in found.items() if value}


def _netrc_logins(environ: Mapping[str, str], *, home: Path) -> dict[str, Credentials]:
    """By host. A file that cannot be read or parsed names nobody, as with `requests`."""
    import netrc

    named = environ.get("NETRC")
    for path in [Path(named)] if named else [home / ".netrc", home / "_netrc"]:
        try:
            read_settings_file(path)  # which opens no pipe
            hosts = netrc.netrc(str(path)).hosts
        except (OSError, ValueError, netrc.NetrcParseError):
            continue
        logins = {host: (user, password or "") for host, (user, _, password) in hosts.items()}
        return {host: login for host, login in logins.items() if host != "default" and any(login)}
    return {}


def _parts(url: str) -> SplitResult:
    """The address taken apart; one that cannot be is refused without being repeated."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        raise EnvironmentUnavailable(
            f"the address of an index cannot be read: {redacted(url)}",
            remedy="correct it in pip's or uv's configuration",
        ) from None
    return parts
