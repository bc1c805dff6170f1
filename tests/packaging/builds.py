"""The files of a release, built once per run from the checkout: the sdist, and the wheel made from the sdist."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.workers import made_once


@dataclass(frozen=True, slots=True)
class Built:
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(folder_of_the_run: Path) -> Built:
    """Return the sdist and the wheel."""
    folder = made_once(folder_of_the_run / "built", _build)
    return Built(sdist=next(folder.glob("*.tar.gz")), wheel=next(folder.glob("*.whl")))


def _build(folder: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), ".")


@pytest.fixture(scope="session")
def make_environment() -> Iterator[Callable[..., Path]]:
    """Return a function that creates a virtual environment, runs `pip install` in it and returns its `bin` folder."""
    with tempfile.TemporaryDirectory(prefix="sandbox-environments-") as folder:

        def make(name: str, *requirements: str) -> Path:
            home = Path(folder, name)
            venv.create(home, symlinks=True)
            install(home / "bin" / "python", *requirements)
            return home / "bin"

        yield make


def install(python: Path, *requirements: str) -> None:
    """Install into the environment of `python`, which needs no pip."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--quiet", *requirements)


def run(*command: str) -> None:
    """Run a command in the checkout, with files that other users may read; fail with its whole output."""
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, umask=0o022, check=False)
    assert answer.returncode == 0, f"{' '.join(command)} failed:\n{answer.stdout}{answer.stderr}"
