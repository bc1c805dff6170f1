"""An interpreter with this project installed that every user of the machine can run.

The checkout, the environment of the tests, and the Python under that may all lie where only their owner can enter.
A test of the engine without root therefore starts a subprocess::

    @pytest.mark.slow
    def test_a_box_without_root_has_all_its_namespaces(unprivileged_python: Path) -> None:
        answer = subprocess.run([unprivileged_python, "-I", "-c", SCRIPT], **AS_NOBODY, capture_output=True)

The copy is the wheel. The first worker that needs the copy installs it, once per run, and the run removes it at its
end. `tmp_path` is closed to other users; `tempfile` is open to them.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.packaging.builds import Built, install, run
from tests.provision import debian
from tests.provision.absent import not_tested
from tests.workers import made_once

NOBODY: Final = 65534
AS_NOBODY: Final[dict[str, Any]] = (
    {"user": NOBODY, "group": NOBODY, "extra_groups": [], "umask": 0o022} if os.geteuid() == 0 else {}
)
_SYSTEM_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
_IS_NEW_ENOUGH: Final = "import sys, venv; sys.exit(sys.version_info < (3, 11))"


@pytest.fixture(scope="session")
def unprivileged_python(built: Built, folder_of_the_run: Path) -> Path:
    """Return a Python that any user can run and that has `sandbox` installed."""

    def make(folder: Path) -> None:
        run(_readable_python(), "-I", "-m", "venv", "--without-pip", str(folder))
        install(folder / "bin" / "python", str(built.wheel))

    return made_once(folder_of_the_run / "unprivileged", make) / "bin" / "python"


@contextmanager
def without_privileges(path: Path) -> Iterator[None]:
    """Take this process's privileges for a while, and let every user pass the folders above `path` for as long."""
    modes = {folder: stat.S_IMODE(folder.stat().st_mode) for folder in path.parents}
    closed = {folder: mode for folder, mode in modes.items() if mode & 0o055 != 0o055}
    for folder, mode in closed.items():
        folder.chmod(mode | 0o055)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for folder, mode in closed.items():
            folder.chmod(mode)


def _readable_python() -> str:
    if base := _found_python():
        return base
    debian.install("python3", instead="install a Python of at least 3.11 that every user can run")
    return _found_python() or not_tested("the engine without root", remedy="its Python is older than 3.11")


def _found_python() -> str | None:
    running = os.path.realpath(sys.executable)
    return next((base for base in (running, *_SYSTEM_PYTHONS) if _is_runnable_by_all(base)), None)


def _is_runnable_by_all(base: str) -> bool:
    try:
        command = [base, "-I", "-c", _IS_NEW_ENOUGH]
        return subprocess.run(command, cwd="/", check=False, capture_output=True, **AS_NOBODY).returncode == 0
    except OSError:
        return False
