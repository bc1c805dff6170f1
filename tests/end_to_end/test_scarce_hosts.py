"""Hosts that are short of something: what is not needed is not missed, and what is needed is asked for by its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.end_to_end.command_line import COMMAND, environment
from tests.unprivileged import AS_NOBODY

pytestmark = pytest.mark.slow

_CLOSED: Final = "for place in /tmp /var/tmp; do mount --bind $place $place; mount -o remount,bind,ro $place; done; "
_NOWHERE: Final = f"{_CLOSED} mount -o remount,bind,ro /; cd {ROOT}; mount --bind . .; mount -o remount,bind,ro .; "
_AT_ONCE: Final = """
import asyncio
from sandbox import AsyncSandbox, SandboxError
SOURCE = "import time\\ndef tool():\\n    print('x' * 20000)\\n    time.sleep(0.1)\\n"
async def one(engine):
    try:
        return str((await engine.run(SOURCE)).status)
    except SandboxError as error:
        return str(error)
async def main():
    async with AsyncSandbox() as engine:
        await one(engine)
        print(set(await asyncio.gather(*(one(engine) for _ in range(40)))))
asyncio.run(main())
"""
_REFUSED: Final = """
from sandbox import Sandbox, SandboxError
try:
    with Sandbox() as engine:
        engine.run("def f(): return 1")
except SandboxError as error:
    print(type(error).__name__, error.retryable, error)
"""
_NO_RIGHTS: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def _as_another_user(number: int) -> dict[str, Any]:
    """A user who has no other processes here, nor has another test's."""
    return {**AS_NOBODY, "user": 45_600 + number} if AS_NOBODY else {}


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
    assert "no folder is writable" in answer.stderr
    assert "TMPDIR" in answer.stderr
    assert "report it" not in answer.stderr


@pytest.mark.parametrize("files", [8, 12, 20])
def test_too_few_open_files_are_called_that_and_no_missing_wall(files: int, ping: str) -> None:
    answer = ended(f"ulimit -n {files};", *COMMAND, "run", ping)
    assert answer.returncode == 5
    assert "Too many open files" in answer.stderr
    assert "ulimit -n" in answer.stderr
    assert "cannot be enforced" not in answer.stderr


@pytest.mark.parametrize("files", [12, 14, 18, 20])
def test_too_few_open_files_for_a_first_box_do_not_blame_the_interpreter(files: int) -> None:
    answer = ended(f"ulimit -n {files};", sys.executable, "-c", _REFUSED)
    assert answer.stdout.startswith("HostExhausted True no box or call can be started here"), answer


@pytest.mark.parametrize("files", [24, 28, 30, 32, 40])
def test_a_box_with_files_for_one_call_makes_the_call(files: int, ping: str) -> None:
    answer = ended(f"ulimit -n {files};", *COMMAND, "run", ping)
    is_made = (answer.returncode, answer.stdout) == (0, "pong\n")
    assert is_made or (answer.returncode == 5 and "ulimit -n" in answer.stderr), answer


@pytest.mark.parametrize("files", [60, 64, 100, 110, 160])
def test_calls_at_once_share_what_open_files_there_are(files: int) -> None:
    answer = ended(f"ulimit -n {files};", sys.executable, "-c", _AT_ONCE)
    assert answer.stdout == "{'ok'}\n", answer


def test_files_that_may_not_grow_are_called_that(ping: str) -> None:
    answer = ended("ulimit -f 0;", "sh", "-c", '"$@" 2>&1 | cat', "sh", *COMMAND, "run", ping)
    assert "File too large" in answer.stdout
    assert "ulimit -f" in answer.stdout
    assert "report it" not in answer.stdout


@pytest.mark.root
@pytest.mark.parametrize("processes", [1, 3, 5])
def test_too_few_processes_are_called_that_and_no_missing_wall(processes: int, unprivileged_python: Path) -> None:
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[1]),) * 2); "
    script += "from sandbox import Sandbox, BackendUnavailable, IsolationUnavailable\n"
    script += "try:\n    with Sandbox() as engine: engine.run('def f(): return 1')\n"
    script += "except BackendUnavailable as error: print(isinstance(error, IsolationUnavailable), error, error.remedy)"
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", script, str(processes)],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **_as_another_user(processes),
    )
    assert answer.stdout.startswith("False "), answer
    assert "ulimit -u" in answer.stdout


def test_many_tenants_are_served_with_files_for_the_boxes_of_few() -> None:
    script = "from sandbox import Sandbox\nwith Sandbox() as sandbox:\n"
    script += "    outcomes = [sandbox.run('def f(): return 1', tenant=str(number)) for number in range(16)]\n"
    script += "    kept = [open('/dev/null') for _ in range(60)]\n"
    script += "print(*{outcome.status.value for outcome in outcomes})"
    answer = ended("ulimit -n 160;", sys.executable, "-c", script)
    assert (answer.returncode, answer.stdout) == (0, "ok\n"), answer.stderr
