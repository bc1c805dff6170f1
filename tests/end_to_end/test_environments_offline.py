"""Environments with the network gone: the engine runs in a network namespace that has no device, not even a loopback.

A folder of wheels, a bundle or a store is enough. Errors name whatever is missing from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

NO_NETWORK: Final = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--net")
ELSEWHERE: Final = "http://127.0.0.1:9/simple"
_ENGINE: Final = """
import json, socket, sys
from sandbox import Sandbox
from sandbox.errors import SandboxError

store, is_offline, calls = json.loads(sys.argv[1])
assert [name for _, name in socket.if_nameindex()] == ["lo"]
with socket.socket() as near:
    assert near.connect_ex(("127.0.0.1", 9)) not in (0, 111), "the loopback is up"
told = []
with Sandbox(store=store, offline=is_offline) as engine:
    for call in calls:
        try:
            told.append(["value", engine.run(**call).value])
        except SandboxError as error:
            told.append([type(error).__name__, str(error)])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels: one package needs another, and one needs what is not there."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "left", "1.0", "2.0")
    publish(folder, "right", "1.0", requires=("left<2",))
    publish(folder, "dangling", "1.0", requires=("nowhere-to-be-found",))
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[LocalIndex]:
    """The same as an index, for what is prepared while there is a network."""
    with LocalIndex(wheels) as index:
        yield index


def _run_without_network(store: Path, *calls: dict[str, Any], is_offline: bool = True) -> Any:
    """How these calls end in an engine that nothing reaches."""
    arguments = json.dumps([str(store), is_offline, calls])
    answer = subprocess.run(
        [*NO_NETWORK, sys.executable, "-c", _ENGINE, arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout)


def _command_without_network(*words: object) -> subprocess.CompletedProcess[str]:
    line = [*NO_NETWORK, sys.executable, "-m", "sandbox", *map(str, words)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)


def _call(module: str, *requirements: str, **more: object) -> dict[str, Any]:
    return {"source": version_of(module, *requirements), **more}


def _policy(folder: Path, supply: str) -> str:
    file = folder / "supplied.toml"
    file.write_text(f'description = "for tests"\n[supply]\n{supply}\n')
    return str(file)


def test_a_folder_of_wheels_that_pip_knows_is_enough(wheels: Path, tmp_path: Path) -> None:
    with machine_with(ELSEWHERE, PIP_FIND_LINKS=str(wheels)):
        ends = _run_without_network(tmp_path / "store", _call("left", "right"), _call("left", "left"))
    assert ends == [["value", "1.0"], ["value", "2.0"]]


def test_a_folder_of_wheels_that_the_policy_names_is_enough(wheels: Path, tmp_path: Path) -> None:
    policy = _policy(tmp_path, f"offline = true\nwheelhouse = [{str(wheels)!r}]")
    call = _call("left", "right", policy=policy)
    with machine_with(ELSEWHERE):
        assert _run_without_network(tmp_path / "store", call, is_offline=False) == [["value", "1.0"]]


def test_a_folder_of_wheels_is_enough_where_pip_asks_no_index(wheels: Path, tmp_path: Path) -> None:
    call = _call("left", "right")
    with machine_with(None, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels)):
        assert _run_without_network(tmp_path / "store", call, is_offline=False) == [["value", "1.0"]]


def test_what_is_missing_offline_is_named(wheels: Path, tmp_path: Path) -> None:
    calls = [_call("x", "unknown"), _call("left", "left==3"), _call("dangling", "dangling"), _call("left", "left")]
    with machine_with(ELSEWHERE, PIP_FIND_LINKS=str(wheels)):
        unknown, version, dependency, good = _run_without_network(tmp_path / "store", *calls)
    assert unknown[0] == version[0] == dependency[0] == "ResolutionFailed"
    assert "unknown" in unknown[1]
    assert "left" in version[1]
    assert "3" in version[1]
    assert "nowhere-to-be-found" in dependency[1]
    assert good == ["value", "2.0"]


def test_an_index_without_a_network_is_unavailable(tmp_path: Path) -> None:
    with machine_with(ELSEWHERE):
        ((kind, said),) = _run_without_network(tmp_path / "store", _call("left", "left"), is_offline=False)
    assert kind == "IndexUnavailable"
    assert ELSEWHERE in said


def test_what_was_built_before_runs_without_a_network(index: LocalIndex, tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(version_of("left", "right"))
    with machine_with(index.url):
        assert command("env", "build", "--file", tool, "--store", tmp_path / "store").returncode == 0
        ran = _command_without_network("run", tool, "--store", tmp_path / "store")
        offline = _command_without_network("run", tool, "--offline", "--store", tmp_path / "store")
    assert (ran.returncode, ran.stdout) == (0, "1.0\n"), ran.stderr
    assert (offline.returncode, offline.stdout) == (0, "1.0\n"), offline.stderr


def test_an_imported_bundle_is_enough(index: LocalIndex, tmp_path: Path) -> None:
    tool, bundle, here, there = (tmp_path / name for name in ("tool.py", "bundle", "here", "there"))
    tool.write_text(version_of("left", "right"))
    with machine_with(index.url):
        built = command("env", "build", "--file", tool, "--store", here, "--json")
        assert built.returncode == 0, built.stderr
        exported = command("env", "export", json.loads(built.stdout)["key"], bundle, "--tool", tool, "--store", here)
        assert exported.returncode == 0, exported.stderr
    with machine_with(ELSEWHERE):
        came = tmp_path / "came.py"
        imported = _command_without_network("env", "import", bundle, "--tool", came, "--store", there)
        assert imported.returncode == 0, imported.stderr
        ran = _command_without_network("run", came, "--offline", "--store", there)
        missing = _command_without_network("run", came, "--offline", "--with", "unknown", "--store", there)
    assert (ran.returncode, ran.stdout) == (0, "1.0\n"), ran.stderr
    assert missing.returncode == 4
    assert "unknown" in missing.stderr
