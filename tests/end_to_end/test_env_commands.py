"""`sandbox env`: requirements are locked, built, kept, checked, carried elsewhere and removed, by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.checkout import ROOT
from tests.end_to_end.command_line import COMMAND, environment, sandbox
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.indexes import LocalIndex, make_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLONE_NEWNET: Final = 0x40000000
WITHOUT_A_NETWORK: Final = (
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    f"assert libc.unshare({CLONE_NEWNET}) == 0, os.strerror(ctypes.get_errno())\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIndex]:
    """The only index of this machine."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "left", "1.0", "2.0")
    publish(folder, "right", "1.0", requires=("left<2",))
    with LocalIndex(folder) as index, machine_with(index.url):
        yield index


@pytest.fixture(scope="module")
def built(index: LocalIndex, store: Path) -> Any:
    """Build an environment that all tests may look at, and return the report of the build."""
    return _run_json("env", "build", "right", "--store", store)


def _run_json(*words: object, code: int = 0) -> Any:
    """Return the JSON document that a command prints."""
    answer = sandbox(*words[:2], "--json", *words[2:])
    assert (answer.returncode, answer.stderr) == (code, ""), answer
    return json.loads(answer.stdout)


def test_requirements_are_locked_to_wheels_and_nothing_is_built(index: LocalIndex, tmp_path: Path) -> None:
    shown = sandbox("env", "lock", "right", "--store", tmp_path, "-o", tmp_path / "lock.json")
    assert shown.returncode == 0, shown
    assert shown.stderr == "resolving right\n"
    assert re.search(r"left +1\.0 +left-1\.0-py3-none-any\.whl", shown.stdout)
    assert "2 packages" in shown.stdout
    lock = _run_json("env", "lock", "right", "--store", tmp_path)
    assert lock == json.loads((tmp_path / "lock.json").read_text())
    assert {package["name"]: package["version"] for package in lock["packages"]} == {"left": "1.0", "right": "1.0"}
    assert all(re.fullmatch("[0-9a-f]{64}", package["sha256"]) for package in lock["packages"])
    assert _run_json("env", "list", "--store", tmp_path) == []


def test_packages_that_a_marker_leaves_out_are_reported(index: LocalIndex, store: Path) -> None:
    answer = sandbox("env", "lock", 'left; sys_platform == "win32"', "--store", store)
    assert answer.returncode == 0, answer
    assert 'left out here, as their markers say: left; sys_platform == "win32"' in answer.stdout


def test_a_tools_own_requirements_are_locked_too(index: LocalIndex, store: Path, tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(version_of("right", "right"))
    lock = _run_json("env", "lock", "left<2", "--file", tmp_path / "tool.py", "--store", store)
    assert [requirement.partition("<")[0] for requirement in lock["requirements"]] == ["left", "right"]


def test_what_was_locked_is_what_is_built_whatever_came_since(index: LocalIndex, tmp_path: Path) -> None:
    make_wheel(index.folder, "moving", "1.0")
    _run_json("env", "lock", "moving", "--store", tmp_path, "-o", tmp_path / "lock.json")
    make_wheel(index.folder, "moving", "2.0")
    of_lock = _run_json("env", "build", "--lock", tmp_path / "lock.json", "--store", tmp_path)
    assert _run_json("env", "show", of_lock["key"], "--store", tmp_path)["lock"]["packages"][0]["version"] == "1.0"
    lock = _run_json("env", "lock", "moving", "--refresh", "--store", tmp_path)
    assert lock["packages"][0]["version"] == "2.0"


def test_a_release_that_was_taken_back_is_locked_and_built_with_a_warning(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = _run_json("env", "lock", "left==1.0", "--store", tmp_path / "before")
    (wheel,) = index.wheels("left")[:1]
    monkeypatch.setitem(index.yanked, wheel.name, "it `eats`\nfiles\x1b[2J")
    asked, warning = ("left==1.0", "--store", tmp_path / "store"), "left 1.0 is yanked: it `eats` files"
    for first in ("resolving left==1.0\n", ""):  # a remembered answer is the same
        shown = sandbox("env", "lock", *asked)
        assert shown.stderr == f"{first}warning: {warning}\n"
    answer = sandbox("env", "lock", "--json", *asked)
    assert (json.loads(answer.stdout), answer.stderr) == (kept, shown.stderr)
    assert shown.stderr in sandbox("env", "build", *asked).stderr
    assert _run_json("env", "build", *asked)["warnings"] == [warning]
    assert _run_json("env", "build", "left==2.0", *asked[1:])["warnings"] == []


def test_a_build_reports_each_stage_once(index: LocalIndex, store: Path) -> None:
    first = sandbox("env", "build", "left==2.0", "--store", store)
    assert first.returncode == 0, first
    assert first.stderr.splitlines() == [
        "resolving left==2.0",
        "downloading wheels",
        "unpacking 1 package",
        "compiling 1 module",
        "verifying 1 package",
        "publishing 1 package",
    ]
    again = sandbox("env", "build", "left==2.0", "--store", store)
    assert (again.returncode, again.stderr) == (0, "")
    keys = [re.findall("[0-9a-f]{64}", answer.stdout)[0] for answer in (first, again)]
    assert keys[0] == keys[1]


def test_only_packages_that_are_not_stored_yet_are_reported_as_unpacked(index: LocalIndex, tmp_path: Path) -> None:
    assert sandbox("env", "build", "left<2", "--store", tmp_path).returncode == 0
    told = sandbox("env", "build", "right", "--store", tmp_path).stderr.splitlines()
    assert {"unpacking 1 of 2 packages", "verifying 1 of 2 packages", "publishing 2 packages"} <= {*told}


def test_a_lock_may_be_written_to_stdout(index: LocalIndex, store: Path) -> None:
    answer = sandbox("env", "lock", "right", "--store", store, "-o", "-")
    assert json.loads(answer.stdout) == _run_json("env", "lock", "right", "--store", store)
    assert not (ROOT / "-").exists()


def test_what_was_built_is_listed_shown_and_verified(built: dict[str, Any], store: Path) -> None:
    assert built["packages"] == 2
    listed = {each["key"]: each for each in _run_json("env", "list", "--store", store)}
    assert listed[built["key"]]["packages"] == {"left": "1.0", "right": "1.0"}
    assert built["key"][:12] in sandbox("env", "list", "--store", store).stdout
    shown = sandbox("env", "show", built["key"][:10], "--store", store).stdout
    assert built["lock_digest"] in shown
    assert "right-1.0-py3-none-any.whl" in shown
    (report,) = _run_json("env", "verify", built["key"], "--store", store)
    assert report["is_intact"]


def test_a_file_that_was_changed_is_named(index: LocalIndex, tmp_path: Path) -> None:
    key = _run_json("env", "build", "left", "--store", tmp_path)["key"]
    (module,) = tmp_path.glob(f"envs/*/{key}/environment/lib/*/site-packages/left.py")
    module.chmod(0o644)
    module.write_text("VERSION = 'evil'\n")
    answer = sandbox("env", "verify", "--store", tmp_path)
    assert answer.returncode == 4
    assert re.search(r"changed: lib/\S+/site-packages/left\.py", answer.stdout)
    assert _run_json("env", "verify", "--store", tmp_path, code=4)[0]["is_intact"] is False
    assert _run_json("env", "prune", "--older-than", "0s", "--store", tmp_path)["environments"] == [key]
    assert _run_json("env", "verify", "--store", tmp_path) == []


def test_what_is_not_wanted_any_more_is_removed(index: LocalIndex, tmp_path: Path) -> None:
    key = _run_json("env", "build", "left", "--store", tmp_path)["key"]
    planned = _run_json("env", "prune", "--max-size", "1B", "--dry-run", "--store", tmp_path)
    assert (planned["environments"], len(_run_json("env", "list", "--store", tmp_path))) == ([key], 1)
    done = sandbox("env", "prune", "--max-size", "1B", "--store", tmp_path)
    assert (done.returncode, "removed 1 environment" in done.stdout) == (0, True)
    assert _run_json("env", "list", "--store", tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("build", "left==3.0"), 4, "ResolutionFailed"),
        (("lock", "right", "left==2.0"), 4, "ResolutionFailed"),
        (("lock", "--", "left", "--index-url=http://evil"), 4, "RequirementRefused"),
        (("lock", "left", "--python", "<3"), 4, "EnvironmentUnavailable"),
        (("lock", "--file", "none.py"), 2, "SpecError"),
        (("show", "0123"), 2, "SpecError"),
        (("import", "README.md"), 2, "SpecError"),
        (("prune", "--older-than", "soon"), 2, "SpecError"),
        (("nonsense",), 2, "UsageError"),
    ],
    ids=str,
)
def test_each_failure_has_its_exit_code(
    words: tuple[str, ...], code: int, kind: str, index: LocalIndex, tmp_path: Path
) -> None:
    told = _run_json("env", words[0], "--store", tmp_path, *words[1:], code=code)
    assert told["error"]["type"] == kind, told


def test_a_lock_for_another_interpreter_is_refused(index: LocalIndex, store: Path, tmp_path: Path) -> None:
    lock = _run_json("env", "lock", "left", "--store", store) | {"interpreter": "cp399-sparc_32"}
    (tmp_path / "lock.json").write_text(json.dumps(lock))
    told = _run_json("env", "build", "--lock", tmp_path / "lock.json", "--store", store, code=4)
    assert "cp399-sparc_32" in told["error"]["message"]


# On a machine without a network.


def _make_pair(folder: Path, name: str) -> None:
    """As `ssh-keygen` does."""
    pair = Ed25519PrivateKey.generate()
    (folder / name).write_bytes(pair.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    (folder / f"{name}.pub").write_bytes(pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


@pytest.fixture
def bundle(built: dict[str, Any], store: Path, tmp_path: Path) -> Path:
    """A signed bundle with a tool."""
    _make_pair(tmp_path, "key")
    (tmp_path / "tool.py").write_text(version_of("left", "right"))
    words = ["--tool", tmp_path / "tool.py", "--key", tmp_path / "key", "--store", store]
    told = _run_json("env", "export", built["key"][:12], tmp_path / "right.bundle", *words)
    assert (told["signature"], told["has_tool"]) == ("ed25519", True)
    return tmp_path / "right.bundle"


def test_a_tool_finds_an_environment_built_for_equal_requirements(
    built: dict[str, Any], store: Path, tmp_path: Path
) -> None:
    (tool := tmp_path / "tool.py").write_text(version_of("left", "right>=1"))
    words = ("env", "export", built["key"], tmp_path / "right.bundle", "--tool", tool, "--store", store)
    refused = sandbox(*words)
    assert refused.returncode == 2
    assert "the tool requires right>=1, and nothing" in " ".join(refused.stderr.split())
    assert "env build --file" in refused.stderr
    assert _run_json("env", "build", "--file", tool, "--store", store)["key"] == built["key"]
    assert _run_json(*words)["has_tool"]
    elsewhere = tmp_path / "elsewhere"
    assert _run_json("env", "import", tmp_path / "right.bundle", "--store", elsewhere)["requirements"] == ["right>=1"]
    assert sandbox("run", tool, "--offline", "--store", elsewhere).stdout == "1.0\n"


@pytest.mark.root
def test_a_bundle_runs_where_there_is_no_network_at_all(bundle: Path, tmp_path: Path) -> None:
    elsewhere, tool = tmp_path / "elsewhere", tmp_path / "arrived.py"
    for words in (
        ("env", "import", bundle, "--tool", tool, "--key", tmp_path / "key.pub", "--store", elsewhere),
        ("env", "build", "right", "--offline", "--store", elsewhere),
        ("run", tool, "--offline", "--store", elsewhere),
    ):
        answer = subprocess.run(
            [sys.executable, "-c", WITHOUT_A_NETWORK, *COMMAND, *map(str, words)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer
    assert answer.stdout == "1.0\n"


def test_an_imported_bundle_outlives_a_prune_before_it_is_built(bundle: Path, tmp_path: Path) -> None:
    store = tmp_path / "fresh"
    assert sandbox("env", "import", bundle, "--store", store).returncode == 0
    assert "nothing to remove" in sandbox("env", "prune", "--store", store).stdout
    assert _run_json("env", "build", "right", "--offline", "--store", store)["packages"] == 2
    assert "imported bundle" in sandbox("env", "prune", "--older-than", "0s", "--store", store).stdout
    assert list((store / "wheels").glob("*/*.whl")) == []


def test_without_its_bundle_there_is_nothing_offline(index: LocalIndex, tmp_path: Path) -> None:
    answer = sandbox("env", "build", "right", "--offline", "--store", tmp_path)
    assert answer.returncode == 4
    assert "Traceback" not in answer.stderr


def test_a_bundle_that_was_changed_comes_in_nowhere(bundle: Path, tmp_path: Path) -> None:
    bundle.write_bytes(bundle.read_bytes().replace(b"VERSION", b"VErSION", 1))
    told = _run_json("env", "import", bundle, "--store", tmp_path / "elsewhere", code=4)
    assert told["error"]["type"] == "EnvironmentTampered"
    assert list((tmp_path / "elsewhere" / "wheels").iterdir()) == []
