"""Any user can run the interpreter that tests of an engine without root start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unprivileged import AS_NOBODY


@pytest.mark.slow
def test_any_user_can_run_the_installed_engine(unprivileged_python: Path) -> None:
    script = "import os, sandbox; print(os.geteuid(), sandbox.__file__)"
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", script], cwd="/", capture_output=True, text=True, check=True, **AS_NOBODY
    )
    user, _, installed = answer.stdout.strip().partition(" ")
    assert user != "0"
    assert Path(installed).is_relative_to(unprivileged_python.parents[1])
