"""The Pythons of this machine that a runner may meet: the newest of each version since 3.8, the running one always.

Looked for where pyenv keeps them and on the PATH. Nothing has to be installed for the tests; what is there is tried.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

_OLDEST: Final = (3, 8)
_NEWEST_LOOKED_FOR: Final = (3, 15)
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@cache
def interpreters() -> dict[str, str]:
    """Version → executable, such as ``{"3.8": "/…/bin/python3.8"}``."""
    found = {**_on_the_path(), **_of_pyenv()}
    found[sys.version_info[:2]] = sys.executable
    return {f"{major}.{minor}": found[major, minor] for major, minor in sorted(found) if (major, minor) >= _OLDEST}


def _of_pyenv() -> dict[tuple[int, int], str]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    releases: dict[tuple[int, int, int], str] = {}
    for folder in versions.iterdir() if versions.is_dir() else ():
        release, python = _RELEASE.fullmatch(folder.name), folder / "bin" / "python"
        if release and os.access(python, os.X_OK):
            major, minor, patch = map(int, release.groups())
            releases[major, minor, patch] = str(python)
    return {release[:2]: releases[release] for release in sorted(releases)}


def _on_the_path() -> dict[tuple[int, int], str]:
    names = {(3, minor): shutil.which(f"python3.{minor}") for minor in range(_OLDEST[1], _NEWEST_LOOKED_FOR[1] + 1)}
    return {version: path for version, path in names.items() if path and _starts(path)}


def _starts(python: str) -> bool:
    """A name on the PATH may lead to a program that only says how to install it."""
    return subprocess.run([python, "-I", "-S", "-c", ""], capture_output=True, check=False).returncode == 0
