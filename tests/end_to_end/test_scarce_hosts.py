"""Hosts that are short of something: what is not needed is not missed, and what is needed is asked for by its name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.end_to_end.command_line import COMMAND, environment

pytestmark = pytest.mark.slow

_CLOSED: Final = "for place in /tmp /var/tmp; do mount --bind $place $place; mount -o remount,bind,ro $place; done; "
_NOWHERE: Final = f"{_CLOSED} mount -o remount,bind,ro /; cd {ROOT}; mount --bind . .; mount -o remount,bind,ro .; "
_NO_RIGHTS: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.fixture
def ping(tmp_path: Path) -> str:
    path = tmp_path / "ping.py"
    path.write_text("def ping():\n    return 'pong'\n")
    return str(path)


def ended(shell: str, *command: str) -> subprocess.CompletedProcess[str]:
    """How a command line ends that is started by this shell."""
    return subprocess.run(
        ["sh", "-c", f'{shell} exec "$@"', "sh", *command],
        cwd=ROOT,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )


def without_folders(*command: str) -> subprocess.CompletedProcess[str]:
    return ended("", "unshare", "--mount", "sh", "-c", f'{_NOWHERE} cd {ROOT}; exec "$@"', "sh", *command)


@pytest.mark.root
def test_a_walled_call_needs_no_temporary_folder_of_the_host(ping: str) -> None:
    answer = without_folders(*COMMAND, "run", ping)
    assert (answer.returncode, answer.stdout) == (0, "pong\n"), answer.stderr


@pytest.mark.root
def test_a_call_without_walls_says_that_it_needs_one(ping: str) -> None:
    answer = without_folders(*_NO_RIGHTS, *COMMAND, "run", ping, "--policy", "trusted")
    assert answer.returncode == 5
    assert "there is none to make it in" in answer.stderr
    assert "TMPDIR" in answer.stderr
    assert "report it" not in answer.stderr
