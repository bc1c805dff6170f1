"""The floor of a build: `uv venv` and `uv pip install`, as anybody would run them, with the indexes of this machine.

It asks all of them where pip of this machine would, as the engine does. Its cache is beside the environments, so that
it links into them as the engine does into its own. Given a lock, uv neither resolves nor looks for what a package
requires: no installer that is asked for the same could do less.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final
from urllib.parse import quote

from sandbox.environments.indexes.settings import Index, read_index_settings
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock
from sandbox.environments.uv_binary import uv_program

_QUIET: Final = ("--no-config", "--quiet", "--no-progress", "--no-python-downloads")


class BareUv:
    """Installs the same again and again, each time to a new place below one folder."""

    def __init__(self, folder: Path, lock: Lock | None = None) -> None:
        """Without a lock there is only `cold`."""
        self._folder = folder
        self._numbers = count()
        self._lock = folder / "lock.txt"
        self._variables = {**os.environ, **_index_variables()}
        folder.mkdir()
        if lock is not None:
            self._install_locked(lock)

    def _install_locked(self, lock: Lock) -> None:
        lines = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in lock.packages]
        self._lock.write_text("".join(lines))
        self._install(self._folder / "warm", ["--no-deps", "-r", str(self._lock)])

    async def warm(self) -> float:
        """Milliseconds for the lock, all of it in uv's cache."""
        return self._install(self._folder / "warm", ["--no-deps", "-r", str(self._lock)])

    async def cold_lock(self) -> float:
        """Milliseconds for the lock, which is downloaded and installed, with an empty cache."""
        return self._once(["--no-deps", "-r", str(self._lock)])

    async def cold(self, requirements: Sequence[str], *, is_compiled: bool = False) -> float:
        """Milliseconds for requirements that are resolved, downloaded and installed, with an empty cache; any number at
        once."""
        what = ["--compile-bytecode", *requirements] if is_compiled else requirements
        return await asyncio.to_thread(self._once, what)

    async def in_two_steps(self, requirements: Sequence[str]) -> float:
        """The same with an empty cache, but resolved to a lock first, which is then installed: as anything has to that
        is to know what it installs before it does."""
        cache, place = self._folder / f"cold-{next(self._numbers)}", self._folder / f"environment-{next(self._numbers)}"
        begun = perf_counter()
        lock = self._folder / "found.txt"
        self._make(place, cache)
        python, given = str(own_interpreter().python), "\n".join(requirements)
        self._uv("pip", "compile", "-", "--python", python, "--output-file", str(lock), cache=cache, given=given)
        self._install_into(place, ["--no-deps", "-r", str(lock)], cache)
        return (perf_counter() - begun) * 1000

    async def unpacked(self, wheels: Path) -> float:
        """Milliseconds for the lock, from a folder of wheels and with an empty cache."""
        return self._once(["--no-deps", "--offline", "--no-index", *_links(wheels), "-r", str(self._lock)])

    def _once(self, what: Iterable[str]) -> float:
        return self._install(self._folder / f"cold-{next(self._numbers)}", what)

    def _install(self, cache: Path, what: Iterable[str]) -> float:
        place = self._folder / f"environment-{next(self._numbers)}"
        begun = perf_counter()
        self._make(place, cache)
        self._install_into(place, what, cache)
        return (perf_counter() - begun) * 1000

    def _make(self, place: Path, cache: Path) -> None:
        self._uv("venv", "--python", str(own_interpreter().python), str(place), cache=cache)

    def _install_into(self, place: Path, what: Iterable[str], cache: Path) -> None:
        self._uv("pip", "install", "--python", str(place / "bin" / "python"), *what, cache=cache)

    def _uv(self, *command: str, cache: Path, given: str = "") -> None:
        subprocess.run(
            [uv_program(), *command, *_QUIET, "--cache-dir", cache],
            check=True,
            input=given.encode(),
            stdout=subprocess.DEVNULL,
            env=self._variables,
        )


def _links(wheels: Path) -> list[str]:
    """Where the wheels of a store are, each in a folder of its own."""
    return [option for folder in wheels.iterdir() for option in ("--find-links", str(folder))]


def _index_variables() -> dict[str, str]:
    """The machine's indexes as uv is told them; not as arguments, which every process of the machine can read."""
    settings = read_index_settings(os.environ, home=Path.home())
    *extra, default = [_with_login(index) for index in settings.indexes] or [""]
    variables = {
        "UV_DEFAULT_INDEX": default,
        "UV_INDEX": " ".join(extra),
        "UV_FIND_LINKS": ",".join(settings.find_links),
        "UV_INDEX_STRATEGY": "unsafe-first-match" if settings.goes_on else "",
        "SSL_CERT_FILE": str(settings.certificates or ""),
    }
    return {name: value for name, value in variables.items() if value}


def _with_login(index: Index) -> str:
    if index.credentials is None:
        return index.url
    name, password = (quote(part, safe="") for part in index.credentials)
    scheme, _, rest = index.url.partition("://")
    return f"{scheme}://{name}:{password}@{rest}"
