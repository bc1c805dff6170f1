"""Root is not always root: in a user namespace, or without capabilities, it is treated as what it can do.

Root in the user namespace of a plain user gets all walls, as that user would. Root on the machine
that cannot give its boxes other users gets none: the kernel would let its tools change /proc/sys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.end_to_end.command_line import environment
from tests.unprivileged import AS_NOBODY

pytestmark = pytest.mark.slow

_TOOL: Final = """
import os
def tool() -> list:
    settings = [name for name in ("kernel/core_pattern", "vm/drop_caches") if os.access("/proc/sys/" + name, os.W_OK)]
    return [settings, os.getuid()]
"""
_MAPPED: Final = """
import ctypes, os, sys
told, heard = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
    os.write(told[1], b"x")
    os.read(heard[0], 1)
    os.setgid(0)
    os.setuid(0)
    os.execv(sys.argv[2], sys.argv[2:])
os.read(told[0], 1)
for name in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{name}", "w") as file:
        file.write(f"0 {sys.argv[1]} 65536")
os.write(heard[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
_STRIPPED: Final = {
    "no capabilities": ("--bounding-set=-all", "--inh-caps=-all", "--nnp"),
    "no setuid": ("--bounding-set=-setuid",),
    "no sys_admin": ("--bounding-set=-sys_admin",),
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where every user can read it. The folder of the tests' artifacts is closed to other users: they use theirs."""
    monkeypatch.delenv("SANDBOX_ARTIFACTS")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(_TOOL)
        file.flush()
        os.chmod(file.name, 0o644)
        yield file.name


def answer(*command: object, **options: Any) -> dict[str, Any]:
    """Return the JSON document that the command line prints."""
    done = subprocess.run(
        [*map(str, command), "--json"], capture_output=True, text=True, timeout=220, check=False, **options
    )
    assert "Traceback" not in done.stderr, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_root_in_a_plain_users_namespace_is_walled_as_that_user(unprivileged_python: Path, tool: str) -> None:
    as_root = ("unshare", "--user", "--map-root-user", unprivileged_python, "-m", "sandbox", "run", tool)
    outcome = answer(*as_root, cwd="/", **AS_NOBODY)
    assert (outcome.get("status"), outcome.get("value")) == ("ok", [[], 1000]), outcome
    layers = outcome["receipt"]["layers"]
    assert outcome["receipt"]["isolation"] == "process"
    assert layers["user_namespace"]["in_force"]
    assert not layers["own_uid"]["in_force"]
    assert "namespace" in layers["own_uid"]["detail"]


@pytest.mark.root
@pytest.mark.parametrize("first", [0, 100_000], ids=["from 0", "from 100000"])
def test_root_in_a_namespace_with_spare_ids_gives_each_box_one(
    first: int, unprivileged_python: Path, tool: str
) -> None:
    mapped = (sys.executable, "-c", _MAPPED, first, unprivileged_python, "-m", "sandbox", "run", tool)
    outcome = answer(*mapped, cwd="/")
    assert (outcome.get("status"), outcome.get("value")) == ("ok", [[], 1000]), outcome
    assert outcome["receipt"]["layers"]["own_uid"]["in_force"]
    assert 30_000 <= int(outcome["receipt"]["user"]) < 60_000


@pytest.mark.root
@pytest.mark.parametrize("stripped", _STRIPPED)
def test_root_that_cannot_give_boxes_other_users_has_no_walled_boxes(stripped: str, tool: str) -> None:
    command = ("setpriv", *_STRIPPED[stripped], sys.executable, "-m", "sandbox", "run", tool)
    refused = answer(*command, cwd=ROOT, env=environment())["error"]
    assert refused["type"] == "IsolationUnavailable"
    assert "own_uid" in refused["message"]
    assert "root without" in refused["message"]
    assert "another user" in refused["remedy"]


@pytest.mark.root
@pytest.mark.parametrize("stripped", _STRIPPED)
def test_root_without_rights_runs_what_demands_no_walls(stripped: str, unprivileged_python: Path, tool: str) -> None:
    command = ("setpriv", *_STRIPPED[stripped], unprivileged_python, "-m", "sandbox", "run", tool)
    outcome = answer(*command, "--policy", "trusted", cwd="/")
    assert outcome.get("status") == "ok", outcome
    assert outcome["receipt"]["isolation"] == "plain"
    is_own = outcome["receipt"]["layers"]["own_uid"]["in_force"]
    assert is_own == (stripped == "no sys_admin")
    assert is_own == (int(outcome["receipt"]["user"]) != os.geteuid())


@pytest.mark.root
def test_the_doctor_of_root_without_capabilities_says_so_on_its_page() -> None:
    command = ("setpriv", *_STRIPPED["no capabilities"], sys.executable, "-m", "sandbox", "doctor")
    found = answer(*command, cwd=ROOT, env=environment())
    assert found["isolation"] == "plain"
    assert found["default_runs"] is False
    assert "without" in found["layers"]["own_uid"]["detail"]
    assert found["policies"]["trusted"]["runs"]


@pytest.mark.root
def test_a_call_without_an_outside_meter_reports_the_memory_it_died_of() -> None:
    source = "def tool():\n    held = []\n    while True: held.append(bytearray(b'x') * (1 << 20))\n"
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(source)
        file.flush()
        os.chmod(file.name, 0o644)
        command = ("setpriv", *_STRIPPED["no capabilities"], sys.executable, "-m", "sandbox", "run", file.name)
        outcome = answer(*command, "--policy", "trusted", "--limit", "memory=64MiB", cwd=ROOT, env=environment())
    assert (outcome["status"], outcome["evidence"]["limit"]) == ("memory", 64 << 20), outcome
    assert outcome["evidence"].get("raised") or outcome["evidence"]["measured"] > 64 << 20
