"""What uv of this machine is told: `UV_*` variables and its configuration files.

uv's own order: variables, the user's `uv.toml`, the system's; lists are joined in that order, single values are taken
from the first that has one. `UV_CONFIG_FILE` stands in place of both files, and must be there; `UV_NO_CONFIG` leaves
them out. Indexes that are `explicit` serve packages of projects that ask for them by name, so they are none of ours;
those whose format is `flat` are pages of links. Projects' own files are not looked for: a tool is no project.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sandbox.environments.indexes.settings import Locations, read_settings_file, split_credentials
from sandbox.errors import EnvironmentUnavailable

_Table = Mapping[str, object]

_TRUE: Final = ("y", "yes", "t", "true", "on", "1")
_TEXTS: Final = (
    "index-url",
    "extra-index-url",
    "find-links",
    "keyring-provider",
    "allow-insecure-host",
    "http-proxy",
    "https-proxy",
    "no-proxy",
)
_SWITCHES: Final = ("no-index", "offline")
_NAMED: Final = re.compile(r"([A-Za-z0-9_.-]+)=(.+)")


@dataclass(frozen=True, slots=True)
class _Index:
    url: str = field(repr=False)
    default: bool = False
    flat: bool = False


def read_uv_locations(environ: Mapping[str, str], *, home: Path, etc: Path) -> Locations:
    """What uv would go by if it were to install something outside of any project."""
    tables = [_read(path) for path in _files(environ, home=home, etc=etc)]
    tables = [{**table, **_table(table.get("pip"))} for table in tables]
    indexes = [*_variable_indexes(environ), *(index for table in tables for index in _indexes(table, environ))]
    default = [environ.get("UV_DEFAULT_INDEX"), *(index.url for index in indexes if index.default)]
    default += [environ.get("UV_INDEX_URL"), *(_text(table.get("index-url")) for table in tables)]
    links = [*re.split(r"[,\s]+", environ.get("UV_FIND_LINKS", "")), *_joined(tables, "find-links")]
    return Locations(
        indexes=(
            *(index.url for index in indexes if not index.default and not index.flat),
            *environ.get("UV_EXTRA_INDEX_URL", "").split(),
            *_joined(tables, "extra-index-url"),
        ),
        default=next((_unnamed(url, environ) for url in default if url), None),
        find_links=(*(index.url for index in indexes if index.flat), *(link for link in links if link)),
        no_index=_is_on("no-index", environ, tables),
        offline=_is_on("offline", environ, tables),
        client_certificate=environ.get("SSL_CLIENT_CERT"),
        keyring=environ.get("UV_KEYRING_PROVIDER") or _first(_text(table.get("keyring-provider")) for table in tables),
        unchecked_hosts=(*environ.get("UV_INSECURE_HOST", "").split(), *_joined(tables, "allow-insecure-host")),
        proxies=_proxies(tables),
        timeout_s=_seconds(environ.get("UV_HTTP_TIMEOUT") or environ.get("UV_REQUEST_TIMEOUT")),
    )


def _files(environ: Mapping[str, str], *, home: Path, etc: Path) -> Iterator[Path]:
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return
    if named := environ.get("UV_CONFIG_FILE"):
        if not os.path.exists(named):
            raise EnvironmentUnavailable(
                f"uv's configuration file {named}, which UV_CONFIG_FILE names, is not there",
                remedy="correct that variable, or unset it",
            )
        yield Path(named)
        return
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    folders = (environ.get("XDG_CONFIG_DIRS") or str(etc / "xdg")).split(os.pathsep)
    system = [*(Path(folder) / "uv" / "uv.toml" for folder in folders), etc / "uv" / "uv.toml"]
    yield from [path for path in system if _may_be_there(path)][:1]


def _may_be_there(path: Path) -> bool:
    """Whether to read the file. A folder that cannot be entered may hold one, and reading then says so."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> _Table:
    """Its options. What is wrong with it is not repeated: the line may hold a password."""
    try:
        table = tomllib.loads(read_settings_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as problem:
        raise EnvironmentUnavailable(
            f"uv's configuration file {path} cannot be read: {type(problem).__name__}", remedy="correct the file"
        ) from None
    if wrong := _wrong_type(table):
        raise EnvironmentUnavailable(
            f"uv's configuration file {path} cannot be used: {wrong} is of the wrong type", remedy="correct the file"
        )
    return _with_paths_of(table, path.parent)


def _wrong_type(table: _Table) -> str | None:
    """The first option that is not of uv's type; read past, it would leave packages to the public index."""
    checks: dict[str, Callable[[object], bool]] = {
        **dict.fromkeys(_TEXTS, _is_of_texts),
        **dict.fromkeys(_SWITCHES, lambda value: isinstance(value, bool)),
        "index": lambda value: isinstance(value, list) and all(_text(_table(index).get("url")) for index in value),
        "pip": lambda value: isinstance(value, dict) and _wrong_type(value) is None,
    }
    return next((name for name, is_right in checks.items() if name in table and not is_right(table[name])), None)


def _is_of_texts(value: object) -> bool:
    return all(isinstance(text, str) for text in (value if isinstance(value, list) else [value]))


def _with_paths_of(table: _Table, folder: Path) -> _Table:
    """What is named by a path is meant from where the file is."""
    found = dict(table)
    for name in ("index-url", "extra-index-url", "find-links"):
        if name in found:
            found[name] = [_from(folder, url) for url in _texts(found[name])]
    if "index" in found:
        found["index"] = [{**index, "url": _from(folder, _text(index.get("url")) or "")} for index in _tables(found)]
    if "pip" in found:
        found["pip"] = _with_paths_of(_table(found["pip"]), folder)
    return found


def _from(folder: Path, url: str) -> str:
    return url if "://" in url or not url else str(folder / url)


def _variable_indexes(environ: Mapping[str, str]) -> Iterator[_Index]:
    for url in environ.get("UV_INDEX", "").split():
        yield _Index(_unnamed(url, environ))


def _indexes(table: _Table, environ: Mapping[str, str]) -> Iterator[_Index]:
    for index in _tables(table):
        url = _text(index.get("url"))
        if url and index.get("explicit") is not True:
            login = _with_login(url, _text(index.get("name")) or "", environ)
            yield _Index(login, default=index.get("default") is True, flat=index.get("format") == "flat")


def _unnamed(url: str, environ: Mapping[str, str]) -> str:
    """A variable may hold `name=url`."""
    named = _NAMED.fullmatch(url)
    return _with_login(named[2], named[1], environ) if named else url


def _with_login(url: str, name: str, environ: Mapping[str, str]) -> str:
    """The URL with the login that variables give for an index of this name."""
    stem = f"UV_INDEX_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
    user, password = environ.get(f"{stem}_USERNAME", ""), environ.get(f"{stem}_PASSWORD", "")
    if not name or not (user or password):
        return url
    scheme, _, rest = split_credentials(url)[0].partition("://")
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def _is_on(name: str, environ: Mapping[str, str], tables: list[_Table]) -> bool:
    variable = environ.get(f"UV_{name.upper().replace('-', '_')}")
    if variable:
        return variable.lower() in _TRUE
    return next((table[name] is True for table in tables if name in table), False)


def _proxies(tables: list[_Table]) -> dict[str, str]:
    found = {name: _first(_text(table.get(f"{name}-proxy")) for table in tables) for name in ("http", "https")}
    no = _first(",".join(_texts(table.get("no-proxy"))) for table in tables)
    return {name: proxy for name, proxy in {**found, "no": no}.items() if proxy}


def _first(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text), None)


def _joined(tables: list[_Table], name: str) -> list[str]:
    return [text for table in tables for text in _texts(table.get(name))]


def _table(value: object) -> _Table:
    return value if isinstance(value, dict) else {}


def _tables(table: _Table) -> list[_Table]:
    listed = table.get("index")
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _text(value: object) -> str | None:
    texts = _texts(value)
    return texts[0] if texts else None


def _texts(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str) and text]


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or 0)
    except ValueError:
        return None
    return seconds if seconds > 0 else None
