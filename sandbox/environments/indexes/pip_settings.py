"""What pip of this machine is told: `PIP_*` variables and its configuration files.

pip's own order, later ones override key by key: the system's files, the user's (the old place, then the new), the
interpreter's own, the file that `PIP_CONFIG_FILE` names (which also replaces the user's), variables. Within all files
together the section `[install]` overrides `[global]`. A list replaces a list, it is never added to.

A file that is there but cannot be read is an error: without what it says a private package would be looked for on the
public index.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sandbox.environments.indexes.settings import Locations, read_settings_file
from sandbox.errors import EnvironmentUnavailable

_SECTIONS: Final = ("global", "install")
_TRUE: Final = ("y", "yes", "t", "true", "on", "1")


def read_pip_locations(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path) -> Locations:
    """What pip would go by if it were to install something."""
    said = _said(environ, home=home, etc=etc, prefix=prefix)
    proxy = said.get("proxy")
    return Locations(
        indexes=tuple(said.get("extra-index-url", "").split()),
        default=said.get("index-url"),
        find_links=tuple(said.get("find-links", "").split()),
        no_index=said.get("no-index", "").lower() in _TRUE,
        certificates=said.get("cert"),
        client_certificate=said.get("client-cert"),
        unchecked_hosts=tuple(said.get("trusted-host", "").split()),
        keyring=said.get("keyring-provider"),
        proxies={"http": proxy, "https": proxy} if proxy else {},
        timeout_s=_seconds(said.get("timeout") or said.get("default-timeout")),
    )


def _said(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path) -> dict[str, str]:
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for path in _files(environ, home=home, etc=etc, prefix=prefix):
        for section, options in _read(path).items():
            sections[section].update(options)
    variables = {_key(name.removeprefix("PIP_")): text for name, text in environ.items() if name.startswith("PIP_")}
    merged: dict[str, str] = {}
    for options in (*sections.values(), variables):
        merged.update((name, text.strip()) for name, text in options.items() if text.strip())
    return merged


def _files(environ: Mapping[str, str], *, home: Path, etc: Path, prefix: Path) -> Iterator[Path]:
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


def _read(path: Path) -> dict[str, dict[str, str]]:
    """Its options by section. What is wrong with it is not repeated: the line may hold a password."""
    try:
        return _parsed(read_settings_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, configparser.Error) as problem:
        raise EnvironmentUnavailable(
            f"pip's configuration file {path} cannot be read: {type(problem).__name__}", remedy="correct the file"
        ) from None


def _parsed(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {
        name: {_key(option): text for option, text in parser.items(name)}
        for name in _SECTIONS
        if parser.has_section(name)
    }


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or 0)
    except ValueError:
        return None
    return seconds if seconds > 0 else None
