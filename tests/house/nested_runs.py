"""Runs of pytest inside tests, with the plugins of this project and with tests that are made up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.checkout import ROOT

ALONE: Final = ()
SHARED: Final = ("-p", "xdist", "--numprocesses=2", "--dist=loadfile")
_PLUGINS: Final = (
    *("-p", "tests.workers", "-p", "tests.leaks", "-p", "tests.pace", "-p", "tests.second_runs"),
    *("-p", "no:cacheprovider"),
)
# Other tests and runs on the machine leave control groups, for which a nested run must not be blamed.
_CONFTEST: Final = """
import pathlib, tests.leaks as leaks
leaks.PATIENCE_SECONDS, leaks._CGROUPS = 0.1, pathlib.Path({groups!r})
"""


def run_tests(
    folder: Path, tests: str, *options: str, conftest: str = "", groups: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the source `tests` in that folder, with these options of pytest and environment variables.

    The run watches the control groups below `groups`, or none.
    """
    (folder / "conftest.py").write_text(_CONFTEST.format(groups=str(groups or folder / "none")) + conftest)
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-W", "ignore", "-m", "pytest", *_PLUGINS, *options, "-o", "filterwarnings="]
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
