"""Locks hold only packages that the policy accepts, brought along or given, for any Python that this host has."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import BuildFailed, RequirementRefused, ResolutionFailed, Sandbox
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import policy_with, publish, refusal_of, version_of
from tests.indexes import LocalIndex
from tests.runners.interpreters import interpreters

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("index")]

RELEASE: Final = own_interpreter().version
OWN: Final = "{}.{}".format(*sys.version_info)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "left", "1.0")
    publish(folder, "right", "1.0", requires=("left",))
    publish(folder, "patched", "1.0", requires=(f"left; python_full_version == '{RELEASE}'",))
    publish(folder, "sized", "1.0")
    publish(folder, "unfinished", "1.0a1", "1.0b2")
    publish(folder, "going-on", "1.0", "2.0a1")
    publish(folder, "hasty", "1.0", requires=("unfinished",))
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(store=store) as engine:
        yield engine


@pytest.fixture(scope="module")
def lock(sandbox: Sandbox) -> Lock:
    """Lock two packages under the policy of a call that names none."""
    return sandbox.lock(requirements=["right"])


def _policy(folder: Path, text: str) -> str:
    file = folder / "stricter.toml"
    file.write_text(f'description = "for tests"\nextends = "default"\n{text}\n')
    return str(file)


# Packages that the policy accepts.


@pytest.mark.parametrize("supply", ['deny = ["left"]', 'allow = ["right"]'])
def test_the_policys_lists_hold_for_a_lock_that_is_given(
    supply: str, sandbox: Sandbox, lock: Lock, tmp_path: Path
) -> None:
    with pytest.raises(ResolutionFailed, match="left"):
        sandbox.build(lock=lock, policy=policy_with(tmp_path, supply))


def test_what_a_lock_was_made_of_is_read_as_if_it_was_asked_for(sandbox: Sandbox, lock: Lock, tmp_path: Path) -> None:
    with pytest.raises(RequirementRefused, match="nonsense"):
        sandbox.build(lock=lock.model_copy(update={"requirements": ("nonsense $(x)",)}))
    with pytest.raises(RequirementRefused, match="'right' is denied"):
        sandbox.build(lock=lock, policy=policy_with(tmp_path, 'deny = ["right"]'))


def test_a_lock_cannot_have_more_packages_than_the_policy_takes(sandbox: Sandbox, lock: Lock, tmp_path: Path) -> None:
    policy = _policy(tmp_path, "[environment]\npackages = 1")
    with pytest.raises(ResolutionFailed, match="2 packages; the policy takes 1"):
        sandbox.build(lock=lock, policy=policy)
    assert "the policy takes 1" in refusal_of(sandbox, "right", policy=policy).message


def test_a_lock_is_refused_at_the_command_line_too(lock: Lock, store: Path, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(lock.model_dump_json())
    policy = policy_with(tmp_path, 'deny = ["left"]')
    answer = command("env", "build", "--lock", tmp_path / "lock.json", "--policy", policy, "--store", store)
    assert answer.returncode == 4
    assert "left" in answer.stderr


def test_a_wrong_lock_does_not_make_the_right_one_fail(sandbox: Sandbox) -> None:
    right = sandbox.lock(requirements=["sized"])
    (package,) = right.packages
    wrong = right.model_copy(update={"packages": (package.model_copy(update={"size": 1}),)})
    with pytest.raises(BuildFailed, match="longer than 1 bytes"):
        sandbox.build(lock=wrong)
    assert sandbox.build(lock=right).lock_digest == right.digest


# Which Python it is for.


@pytest.mark.timeout(300)
@pytest.mark.parametrize("said", ["by the tool", "by an option"])
def test_a_lock_for_another_python_of_this_host_is_built_for_that(said: str, store: Path, tmp_path: Path) -> None:
    wanted = f"=={next((version for version in interpreters() if version != OWN), OWN)}.*"
    tool, lock = tmp_path / "tool.py", tmp_path / "lock.json"
    tool.write_text(version_of("left", "left").replace("# ///\n", f'# requires-python = "{wanted}"\n# ///\n', 1))
    asked = ["--file", tool] if said == "by the tool" else ["left", "--python", wanted]
    assert command("env", "lock", *asked, "-o", lock, "--store", store).returncode == 0
    built = _run_json("env", "build", "--lock", lock, "--store", store)
    assert built["python"].startswith(wanted.strip("=*"))
    assert _run_json("env", "verify", built["key"], "--store", store)[0]["is_intact"]


def test_a_lock_of_another_release_is_taken_if_it_has_the_wheels(sandbox: Sandbox, lock: Lock) -> None:
    whole = sandbox.lock(requirements=["patched"])
    assert (whole.python, [package.name for package in whole.packages]) == (RELEASE, ["left", "patched"])
    for python in (None, f"{RELEASE}0"):
        assert sandbox.build(lock=lock.model_copy(update={"python": python})).key == sandbox.build(lock=lock).key
        lacking = whole.model_copy(update={"python": python, "packages": whole.packages[1:]})
        with pytest.raises(BuildFailed, match=r"patched 1\.0 requires left"):
            sandbox.build(lock=lacking)


def test_a_lock_for_a_python_that_the_tool_does_not_take_is_refused(lock: Lock, store: Path, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(lock.model_dump_json())
    answer = command("env", "build", "--lock", tmp_path / "lock.json", "--python", "<3.8", "--store", store)
    assert answer.returncode == 4
    assert lock.interpreter in answer.stderr
    assert "<3.8" in answer.stderr


def _run_json(*words: object) -> Any:
    answer = command(*words[:2], "--json", *words[2:])
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    return json.loads(answer.stdout)


# Releases that are not final.


@pytest.mark.parametrize(
    ("requirement", "version"),
    [("unfinished==1.0a1", "1.0a1"), ("unfinished>=1.0a1", "1.0b2"), ("going-on", "1.0")],
)
def test_a_prerelease_is_taken_where_it_is_asked_for(requirement: str, version: str, sandbox: Sandbox) -> None:
    (package,) = sandbox.lock(requirements=[requirement]).packages
    assert package.version == version


@pytest.mark.parametrize("requirement", ["unfinished", "hasty", "unfinished>=0.5"])
def test_a_lack_of_all_but_prereleases_names_a_remedy(requirement: str, sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, requirement)
    assert isinstance(refusal, ResolutionFailed)
    assert "only prereleases of unfinished would do, such as 1.0b2" in refusal.message
    assert "unfinished==1.0b2" in str(refusal.remedy)
    assert "supply.prereleases" in str(refusal.remedy)


def test_a_policy_may_take_prereleases(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "early.toml").write_text('description = "for tests"\n[supply]\nprereleases = true\n')
    locked = sandbox.lock(requirements=["hasty", "going-on"], policy=str(tmp_path / "early.toml"))
    versions = {package.name: package.version for package in locked.packages}
    assert versions == {"going-on": "2.0a1", "hasty": "1.0", "unfinished": "1.0b2"}
