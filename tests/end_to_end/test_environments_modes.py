"""Stores and the rights that files have: any umask, disks mounted read-only, folders that may not be changed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from tests.checkout import ROOT
from tests.end_to_end.command_line import environment, sandbox
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.unprivileged import AS_NOBODY, NOBODY

pytestmark = pytest.mark.slow

_READ_ONLY: Final = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
_CALLS: Final = """
import json, sys
sys.path[:0] = json.loads(sys.argv[2])
from sandbox import Sandbox
from sandbox.errors import SandboxError
told = []
try:
    with Sandbox(store=sys.argv[1]) as engine:
        for source in json.loads(sys.argv[3]):
            try:
                told.append(engine.run(source).value)
            except SandboxError as error:
                told.append([type(error).__name__, error.remedy])
except SandboxError as error:
    told.append([type(error).__name__, error.remedy])
print(json.dumps(told))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Wheels, and room for a store; other users can look into it."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-modes-"))
    folder.chmod(0o755)
    publish(folder / "wheels", "left", "1.0", "2.0")
    with machine_with(None, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "wheels")):
        yield folder
    shutil.rmtree(folder)


def _may_be_changed(store: Path) -> list[str]:
    """List the files of a store that other users than its owner may write."""
    paths = [path for path in (store, *store.rglob("*")) if not path.is_symlink()]
    return [str(path) for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o022]


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_environments_work_under_any_umask_and_only_the_owner_can_write(umask: int, folder: Path) -> None:
    for version in ("1.0", "2.0"):
        (folder / "tool.py").write_text(version_of("left", f"left=={version}"))
        answer = sandbox("run", folder / "tool.py", "--store", folder / "store", umask=umask)
        assert (answer.returncode, answer.stdout.strip()) == (0, version), answer
    assert _may_be_changed(folder / "store") == []
    assert stat.S_IMODE((folder / "store/resolutions").stat().st_mode) == 0o700


def _run_json(folder: Path, *versions: str, wrap: tuple[str, ...] = (), **options: Any) -> list[Any]:
    """Return the values of tools with these versions in another process, or its refusal."""
    sources = [version_of("left", f"left=={version}") for version in versions]
    places = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    words = [str(folder / "store"), json.dumps(places), json.dumps(sources)]
    python = [*wrap, sys.executable, "-I", "-c", _CALLS, *words]
    answer = subprocess.run(
        python, env=environment(), cwd="/", capture_output=True, text=True, check=False, timeout=200, **options
    )
    assert answer.returncode == 0, answer.stderr
    found: list[Any] = json.loads(answer.stdout)
    return found


@pytest.mark.root
def test_a_store_mounted_read_only_is_used_and_not_changed(folder: Path) -> None:
    with Sandbox(store=folder / "store") as engine:
        assert engine.run(version_of("left", "left==1.0")).value == "1.0"
    mounted = ("unshare", "-m", "sh", "-c", _READ_ONLY, "sh", str(folder / "store"))
    for path in (folder / "store/locks").iterdir():
        path.unlink()
    for path in (folder / "store").rglob("complete"):  # as after a restart, when it would be written again
        path.chmod(0o600)
        path.write_text(f"{path.read_text().split()[0]} another-boot\n")
    used, refused = _run_json(folder, "1.0", "2.0", wrap=mounted)
    assert used == "1.0"
    assert refused[0] == "StoreUnwritable"
    assert "mounted read-only" in refused[1]


def test_a_store_that_may_not_be_written_to_says_so(unprivileged_python: Path, folder: Path) -> None:
    store = folder / "store"
    with Sandbox(store=store) as engine:
        assert engine.run(version_of("left", "left==1.0")).value == "1.0"
    subprocess.run(["chmod", "-R", "a-w", store], check=True)
    if AS_NOBODY:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", store], check=True)
    sources = json.dumps([version_of("left", "left==1.0"), version_of("left", "left==2.0")])
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", _CALLS, store, "[]", sources],
        env={**os.environ, "HOME": str(folder)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        **AS_NOBODY,
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert [kind for kind, _ in told] == ["StoreUnwritable"] * 2
    assert all("let this user write" in remedy for _, remedy in told)
    subprocess.run(["chmod", "-R", "u+w", store], check=True)
