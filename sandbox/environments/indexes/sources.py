"""The settings files and variables that say where packages are: pip's, uv's and netrc.

pip's order holds, later files override key by key: the system's files, the user's, the interpreter's own, the file that
`PIP_CONFIG_FILE` names (which also replaces the user's), then `PIP_*` variables. `[install]` overrides `[global]`, and
a list replaces a list. uv is read by its `UV_*` variables alone.

A file that exists but cannot be read is an error, and so is a `uv.toml` that names indexes: without what the file says,
a private package would be looked for on the public index.
"""

from __future__ import annotations

import configparser
import errno
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from sandbox.environments.indexes.settings import Credentials, split_credentials
from sandbox.errors import EnvironmentUnavailable

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SECTIONS: Final = ("global", "install")
_TRUE: Final = ("y", "yes", "t", "true", "on", "1")
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.+)")
_UV_INDEXES: Final = re.compile(
    r"^\s*(\[\[\s*(pip\.)?index\s*\]\]|(pip\.)?(index|index-url|extra-index-url|find-links|no-index)\s*=)", re.M
)


@dataclass(frozen=True, slots=True)
class Sources:
    """The settings of this machine; addresses still hold their credentials."""

    tool: Literal["pip", "uv"]
    """The tool whose settings say where packages are."""
    extras: tuple[str, ...] = field(default=(), repr=False)
    default: str | None = field(default=None, repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    offline: bool = False
    certificates: Path | None = None
    unchecked_hosts: tuple[str, ...] = ()
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float | None = None
    logins: Mapping[str, Credentials] = field(default_factory=dict, repr=False)


def read_sources(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path | None) -> Sources:
    """Return what pip and uv of this machine go by."""
    pip = _pip_options(environ, home=home, etc=etc, prefix=prefix or Path(sys.prefix))
    extras = [*environ.get("UV_INDEX", "").split(), *environ.get("UV_EXTRA_INDEX_URL", "").split()]
    default = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    links = [link for link in re.split(r"[,\s]+", environ.get("UV_FIND_LINKS", "")) if link]
    is_uv = bool(extras or default or links)
    if not is_uv:
        _refuse_uv_files(environ, home=home, etc=etc)
        extras, default = pip.get("extra-index-url", "").split(), pip.get("index-url")
        links = pip.get("find-links", "").split()
    hosts = environ.get("UV_INSECURE_HOST", "") if is_uv else pip.get("trusted-host", "")
    named = [pip.get("cert"), *(environ.get(name) for name in _CERTIFICATES)]
    certificates = next((text for text in named if text), None)
    return Sources(
        tool="uv" if is_uv else "pip",
        extras=tuple(_with_named_login(url, environ) for url in extras),
        default=_with_named_login(default, environ) if default else None,
        find_links=tuple(links),
        no_index=not is_uv and pip.get("no-index", "").lower() in _TRUE,
        offline=environ.get("UV_OFFLINE", "").lower() in _TRUE,
        certificates=Path(certificates).expanduser() if certificates else None,
        unchecked_hosts=tuple(hosts.split()),
        proxies=_proxies(environ, pip.get("proxy")),
        timeout_s=_seconds(environ.get("UV_HTTP_TIMEOUT"), pip.get("timeout"), pip.get("default-timeout")),
        logins=_netrc_logins(environ, home=home),
    )


def _pip_options(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path) -> dict[str, str]:
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for path in _pip_files(environ, home=home, etc=etc, prefix=prefix):
        for section, options in _read_pip_file(path).items():
            sections[section].update(options)
    variables = {_key(name.removeprefix("PIP_")): text for name, text in environ.items() if name.startswith("PIP_")}
    merged: dict[str, str] = {}
    for options in (*sections.values(), variables):
        merged.update((name, text.strip()) for name, text in options.items() if text.strip())
    return merged


def _pip_files(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path) -> Iterator[Path]:
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    folders = environ.get("XDG_CONFIG_DIRS") or str(etc / "xdg")
    yield from (Path(folder) / "pip" / "pip.conf" for folder in folders.split(os.pathsep))
    yield etc / "pip.conf"
    if not named or not os.path.exists(named):
        yield home / ".pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield prefix / "pip.conf"
    if named:
        yield Path(named)


def _read_pip_file(path: Path) -> dict[str, dict[str, str]]:
    """Return its options by section."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, configparser.Error) as problem:
        # The message does not repeat the problem's own text: the line may hold a password.
        raise EnvironmentUnavailable(
            f"pip's configuration file {path} cannot be read: {type(problem).__name__}", remedy="correct the file"
        ) from None
    found = [name for name in _SECTIONS if parser.has_section(name)]
    return {name: {_key(option): text for option, text in parser.items(name)} for name in found}


def _refuse_uv_files(environ: Mapping[str, str], *, home: Path, etc: Path) -> None:
    """Raise if a configuration file of uv names indexes."""
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    named = environ.get("UV_CONFIG_FILE")
    for path in [Path(named)] if named else [user, etc / "xdg" / "uv" / "uv.toml", etc / "uv" / "uv.toml"]:
        try:
            text = _read_file(path)
            tomllib.loads(text)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError) as problem:
            raise EnvironmentUnavailable(
                f"uv's configuration file {path} cannot be read: {type(problem).__name__}", remedy="correct the file"
            ) from None
        if _UV_INDEXES.search(text):
            raise EnvironmentUnavailable(
                f"uv's configuration file {path} names indexes, and only uv's variables are read",
                remedy="name them in UV_DEFAULT_INDEX, UV_INDEX or UV_FIND_LINKS, or in pip.conf",
            )


def _with_named_login(text: str, environ: Mapping[str, str]) -> str:
    """Return the address of `name=address` with the login that uv's variables have for that name."""
    found = _NAMED.fullmatch(text)
    if found is None or "://" in found[1]:
        return text
    name = re.sub(r"[^A-Z0-9]", "_", found[1].upper())
    user, password = (environ.get(f"UV_INDEX_{name}_{part}", "") for part in ("USERNAME", "PASSWORD"))
    if not (user or password):
        return found[2]
    scheme, _, rest = split_credentials(found[2])[0].partition("://")
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def _proxies(environ: Mapping[str, str], pips: str | None) -> dict[str, str]:
    """Return the proxies that every program uses; the lower case wins, and `all` stands for both schemes."""
    names = ("all", "http", "https", "no")
    said = {name: environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY") for name in names}
    found = {scheme: pips or said[scheme] or said["all"] for scheme in ("http", "https")}
    return {name: text for name, text in {**found, "no": said["no"]}.items() if text}


def _netrc_logins(environ: Mapping[str, str], *, home: Path) -> dict[str, Credentials]:
    """Return netrc's logins by host; like other tools, the engine ignores a file that cannot be parsed."""
    import netrc

    named = environ.get("NETRC")
    for path in [Path(named)] if named else [home / ".netrc", home / "_netrc"]:
        try:
            _read_file(path)  # netrc itself would wait for a pipe
            hosts = netrc.netrc(str(path)).hosts
        except (OSError, ValueError, netrc.NetrcParseError):
            continue
        logins = {host: (user, password or "") for host, (user, _, password) in hosts.items()}
        return {host: login for host, login in logins.items() if host != "default" and any(login)}
    return {}


def _read_file(path: Path) -> str:
    if stat.S_ISFIFO(path.stat().st_mode) or path.is_socket():  # reading a pipe might never end
        raise OSError(errno.EINVAL, "Not a regular file")
    return path.read_text()


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _seconds(*texts: str | None) -> float | None:
    for text in texts:
        try:
            seconds = float(text or 0)
        except ValueError:
            continue
        if seconds > 0:
            return seconds
    return None
