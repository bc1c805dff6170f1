"""`.test-venv`: the checkout, editable, with its test extra.

::

    .test-venv/
      bin/python    what pytest runs under
      made-from     written last: a digest of everything the environment was made from

The environment is made again when the digest differs (pyproject.toml changed, another Python, a moved checkout), when
the marker is missing (an earlier run was interrupted), or when it does not start any more (its Python was removed).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.provision import ROOT, ProvisionError, debian

_PROJECT: Final = ROOT / "pyproject.toml"
_HOME: Final = ROOT / ".test-venv"
_PYTHON: Final = _HOME / "bin" / "python"
_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 5.0
_MARKER: Final = _HOME / "made-from"


def make_ready() -> Path:
    """Return the interpreter of an environment that is complete and up to date."""
    with _alone():
        if not _is_usable():
            _make()
    return _PYTHON


@contextmanager
def _alone() -> Iterator[None]:
    """Let two runs in one checkout make one environment."""
    with _PROJECT.open("rb") as project:
        fcntl.flock(project, fcntl.LOCK_EX)
        yield


def _is_usable() -> bool:
    if not _MARKER.is_file() or _MARKER.read_text() != _digest() or not _PYTHON.exists():
        return False
    return subprocess.run([_PYTHON, "-c", "import pytest, sandbox"], cwd="/", check=False).returncode == 0


def _digest() -> str:
    origin = "\n".join([_PROJECT.read_text(), sys.version, sys.base_prefix, str(ROOT)])
    return hashlib.sha256(origin.encode()).hexdigest()


def _make() -> None:
    print("Making the tests' environment in .test-venv, once. This takes a minute.", file=sys.stderr, flush=True)
    _create()
    _install()
    _MARKER.write_text(_digest())


def _create() -> None:
    if importlib.util.find_spec("ensurepip") is None:
        debian.install("python3-venv", instead="install the venv module of this Python (Debian: python3-venv)")
        importlib.invalidate_caches()
    try:
        venv.create(_HOME, clear=True, symlinks=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ProvisionError(f"{_HOME} could not be created: {error}") from error


def _install() -> None:
    command = [str(_PYTHON), "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--editable", ".[test]"]
    for _ in range(_ATTEMPTS):
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0:
            return
        time.sleep(_PAUSE_SECONDS)
    raise ProvisionError(
        "pip could not install the test extra, and printed the reason above. pip needs a package index: connect to the"
        " network, or name a mirror with PIP_INDEX_URL or a folder of wheels with PIP_FIND_LINKS, and run this again."
    )
