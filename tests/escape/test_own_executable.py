"""Attack: change the host's interpreter through /proc/self/exe.

The link leads to the file the process was started from, by way of the mount it was started from: the host's own, which
no read-only bind of the box stands before. Writing is refused while the program runs, but its mode, its times and its
attributes are its owner's to change, and no layer but the mount forbids that. Where a user runs an interpreter of
their own (pyenv, conda, uv) the box's user *is* the owner.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.escape.without_root import run_all_without_root
from tests.unprivileged import NOBODY

ATTACK: Final = """
import os

def tool(way: str) -> str:
    try:
        if way == "mode":
            os.chmod("/proc/self/exe", 0o4777)
        if way == "times":
            os.utime("/proc/self/exe", (1, 1))
        if way == "attributes":
            os.setxattr("/proc/self/exe", "user.attack", b"x")
        if way == "content":
            with open("/proc/self/exe", "r+b") as file:
                file.write(b"#")
        if way == "length":
            os.truncate("/proc/self/exe", 0)
    except OSError as error:
        return str(error)
    return "done"
"""
WAYS: Final = ("mode", "times", "attributes", "content", "length")


@pytest.fixture(scope="module")
def own_interpreter(unprivileged_python: Path) -> Iterator[Path]:
    """An interpreter that the engine's user owns; not below /tmp, where no box shows one."""
    base = Path(os.path.realpath(unprivileged_python))
    home = Path(tempfile.mkdtemp(prefix="sandbox-escape-", dir="/var/lib" if os.geteuid() == 0 else Path.home()))
    try:
        home.chmod(0o755)
        (home / "bin").mkdir()
        python = home / "bin" / base.name
        shutil.copy(base, python)
        (home / "lib").symlink_to(base.parents[1] / "lib")
        if os.geteuid() == 0:
            os.chown(python, NOBODY, NOBODY)
        yield python
    finally:
        shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_tool_cannot_change_the_interpreter_on_the_host(
    way: str, own_interpreter: Path, unprivileged_python: Path
) -> None:
    before = _seen(own_interpreter)
    packages = next(unprivileged_python.parents[1].glob("lib/python*/site-packages"))
    call: dict[str, object] = {"source": ATTACK, "args": {"way": way}}
    (outcome,) = run_all_without_root(own_interpreter, [call], packages=packages)
    after = _seen(own_interpreter)
    own_interpreter.chmod(0o755)
    assert outcome["status"] == "ok", outcome["error"]
    assert after == before
    assert outcome["value"] != "done"


def _seen(file: Path) -> tuple[int, int, int, list[str]]:
    status = file.stat()
    return status.st_mode, status.st_mtime_ns, status.st_size, os.listxattr(file)
