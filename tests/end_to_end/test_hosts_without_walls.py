"""A host that forbids user namespaces: policies that need walls are refused, those that do not get limits and filters.

Such a host is made here: a namespace of the test's own whose limit of further ones is set to zero, as an administrator
would for the whole machine with `sysctl user.max_user_namespaces=0`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unprivileged import AS_NOBODY, NOBODY

pytestmark = pytest.mark.slow

_SCRIPT: Final = r"""
import ctypes, json, os, sys, tempfile
uid, gid = os.geteuid(), os.getegid()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")

from sandbox import IsolationUnavailable, Sandbox

SOURCE = '''
import os, socket

def tool(way: str) -> object:
    print("printed")
    if way == "folders":
        for number in range(30_000):
            os.mkdir(str(number))
    if way in ("folders", "loop"):
        while True:
            pass
    if way == "inet":
        return socket.socket(socket.AF_INET).fileno()
    if way == "orphan":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open("alive", "w").close()
                while True:
                    pass
            os._exit(0)
        os.wait()
    return [os.getcwd(), sorted(os.environ), os.path.exists("/etc/shadow") and os.access("/etc/shadow", os.R_OK)]
'''
found = {}
before = os.listdir(tempfile.gettempdir())
with Sandbox() as sandbox:
    try:
        sandbox.run(SOURCE, {"way": "tell"})
    except IsolationUnavailable as refusal:
        found["default"] = [list(refusal.missing), refusal.remedy]
    first = sandbox.map(SOURCE, [{"way": "tell"}] * 6, policy=sys.argv[1])
    found["first"] = [outcome.status for outcome in first]
    sandbox.prepare(SOURCE, policy=sys.argv[1])
    for way in ("tell", "inet", "orphan", "folders", "loop"):
        seconds = 2 if way in ("folders", "loop") else 30
        outcome = sandbox.run(SOURCE, {"way": way}, policy=sys.argv[1], limits={"wall": seconds})
        found[way] = json.loads(outcome.to_json())
found["left"] = sorted(set(os.listdir(tempfile.gettempdir())) - set(before))
print(json.dumps(found))
"""
_POLICY: Final = """
description = "What is accepted where there are no walls."

[isolation]
minimum = "plain"
require = []
"""


_IN_MEMORY: Final = Path("/dev/shm")


@pytest.fixture(scope="module")
def quick_folder() -> Iterator[Path]:
    """For temporary files, and not on a disk: others may keep that busy for longer than a call's end is waited for."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@pytest.fixture(scope="module")
def found(unprivileged_python: Path, quick_folder: Path) -> dict[str, Any]:
    """Return the report of the program."""
    policy = unprivileged_python.parents[1] / "no_walls.toml"
    policy.write_text(_POLICY)
    policy.chmod(0o644)
    answer = subprocess.run(
        [unprivileged_python, "-I", "-c", _SCRIPT, policy],
        cwd="/",
        env={**os.environ, "TMPDIR": str(quick_folder)},
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
        **AS_NOBODY,
    )
    assert answer.returncode == 0, answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def test_a_policy_that_requires_walls_is_refused_with_the_remedy(found: dict[str, Any]) -> None:
    missing, remedy = found["default"]
    assert missing[0] == "user_namespace"
    assert "user.max_user_namespaces" in remedy


def test_a_policy_that_accepts_it_runs_and_the_receipt_says_how(found: dict[str, Any]) -> None:
    outcome = found["tell"]
    assert outcome["status"] == "ok", outcome["error"]
    receipt = outcome["receipt"]
    assert receipt["isolation"] == "plain"
    assert not receipt["layers"]["pid_namespace"]["in_force"]
    assert receipt["layers"]["seccomp"]["in_force"]
    assert receipt["layers"]["no_new_privs"]["in_force"]
    assert any("plain" in note for note in receipt["notes"])


def test_of_calls_that_find_it_out_at_once_all_run(found: dict[str, Any]) -> None:
    assert found["first"] == ["ok"] * 6


def test_the_tool_still_has_a_folder_and_an_environment_of_its_own(found: dict[str, Any]) -> None:
    folder, names, reads_secrets = found["tell"]["value"]
    assert "/sandbox-" in folder
    assert not Path(folder).exists()
    assert "SANDBOX_CALL_ID" in names
    assert "PYTEST_CURRENT_TEST" not in names
    assert reads_secrets is False


def test_without_a_network_of_its_own_it_has_no_network_sockets(found: dict[str, Any]) -> None:
    assert found["inet"]["status"] == "exception", found["inet"]


def test_time_runs_out_and_everything_is_killed(found: dict[str, Any]) -> None:
    assert (found["loop"]["status"], found["loop"]["stdout"]["text"]) == ("timeout", "printed\n")
    assert found["orphan"]["status"] == "ok", found["orphan"]


def test_a_call_that_leaves_very_many_files_ends_in_time_without_them(found: dict[str, Any]) -> None:
    folders = found["folders"]
    assert (folders["status"], folders["stdout"]["text"]) == ("timeout", "printed\n"), folders
    assert folders["evidence"].get("signal") == "SIGKILL", folders  # the guard reported it, and the box was kept
    assert found["left"] == []


def test_the_receipt_says_that_files_on_the_hosts_disk_are_unlimited(found: dict[str, Any]) -> None:
    limits = found["tell"]["receipt"]["limits"]
    assert [limits[name]["enforced_by"] for name in ("disk", "inodes")] == ["none", "none"]
