"""The floor of a build: plain `uv venv` and `uv pip install`, with the indexes of this machine.

uv asks the same indexes as pip and the engine. The cache is next to the environments, so that uv links files as the
engine does. Given a lock, uv neither resolves nor looks for dependencies: no installer could do less for the same
result.
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

from sandbox.environments.indexes.settings import read_index_settings
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock
from sandbox.environments.uv_binary import uv_program

_QUIET: Final = ("--no-config", "--quiet", "--no-progress", "--no-python-downloads")


class BareUv:
    """Install the same packages again and again, each time into a new folder."""

    def __init__(self, folder: Path, lock: Lock | None = None) -> None:
        """Prepare a floor. Without a lock, only `cold` works."""
        self._folder = folder
        self._numbers = count()
        self._lock = folder / "lock.txt"
        self._variables = {**os.environ, **_build_variables()}
        folder.mkdir()
        if lock is not None:
            self._install_locked(lock)

    def _install_locked(self, lock: Lock) -> None:
        lines = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in lock.packages]
        self._lock.write_text("".join(lines))
        self._install(self._folder / "warm", ["--no-deps", "-r", str(self._lock)])

    async def warm(self) -> float:
        """Return the milliseconds of installing the lock from a warm cache."""
        return self._install(self._folder / "warm", ["--no-deps", "-r", str(self._lock)])

    async def cold_lock(self) -> float:
        """Return the milliseconds of downloading and installing the lock with an empty cache."""
        return self._once(["--no-deps", "-r", str(self._lock)])

    async def cold(self, requirements: Sequence[str], *, is_compiled: bool = False) -> float:
        """Return the milliseconds of resolving, downloading and installing requirements with an empty cache. Several
        may run at once."""
        what = ["--compile-bytecode", *requirements] if is_compiled else requirements
        return await asyncio.to_thread(self._once, what)

    async def in_two_steps(self, requirements: Sequence[str]) -> float:
        """Return the milliseconds of `cold` in two steps, resolving to a lock and installing the lock, as an installer
        must that knows the packages before it installs them."""
        cache, place = self._folder / f"cold-{next(self._numbers)}", self._folder / f"environment-{next(self._numbers)}"
        begun = perf_counter()
        lock = self._folder / "found.txt"
        self._make(place, cache)
        python, given = str(own_interpreter().python), "\n".join(requirements)
        self._uv("pip", "compile", "-", "--python", python, "--output-file", str(lock), cache=cache, given=given)
        self._install_into(place, ["--no-deps", "-r", str(lock)], cache)
        return (perf_counter() - begun) * 1000

    async def unpacked(self, wheels: Path) -> float:
        """Return the milliseconds of installing the lock from a folder of wheels with an empty cache."""
        return self._once(["--no-deps", "--offline", "--no-index", *_list_wheels(wheels), "-r", str(self._lock)])

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


def _list_wheels(wheels: Path) -> list[str]:
    """Return links to the wheels of a store, each of which is in a folder of its own."""
    return [option for folder in wheels.iterdir() for option in ("--find-links", str(folder))]


def _build_variables() -> dict[str, str]:
    """Return the machine's indexes as uv's environment variables, because every process can read another one's
    arguments."""
    settings = read_index_settings(os.environ, home=Path.home())
    extra = [index.url_with_login for index in settings.indexes]
    default = "" if settings.asks_default or not extra else extra.pop()
    variables = {
        "UV_DEFAULT_INDEX": default,
        "UV_INDEX": " ".join(extra),
        "UV_FIND_LINKS": ",".join(settings.find_links),
        "SSL_CERT_FILE": str(settings.certificates or ""),
    }
    return {name: value for name, value in variables.items() if value}
