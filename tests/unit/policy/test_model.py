"""The policy as a value: defaults, order, refusals, and a digest of its permissions only."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import sandbox.policy.model
from sandbox.policy import Filesystem, Isolation, Layer, Limits, NetworkMode, Policy, ReuseMode, Strength
from sandbox.policy.model import MAX_READABLE, Reuse, Variables
from sandbox.policy.quantities import MIB

PLAIN = Policy(name="plain", description="for tests")
ROOT = Path(sandbox.policy.model.__file__).parents[2]


def test_the_defaults_forbid_the_network_and_require_isolation() -> None:
    assert PLAIN.network.mode is NetworkMode.NONE
    assert PLAIN.filesystem.readable == ()
    assert PLAIN.isolation.minimum is Strength.PROCESS
    assert {Layer.SECCOMP, Layer.NO_NEW_PRIVS, Layer.PID_NAMESPACE} <= set(PLAIN.isolation.require)
    assert (PLAIN.limits.wall, PLAIN.limits.memory, PLAIN.output.shown) == (30.0, 512 * MIB, MIB)


def test_every_field_has_a_description() -> None:
    described = {
        f"{name}.{key}": field.description
        for name, part in PLAIN.sections().items()
        for key, field in type(part).model_fields.items()
    }
    assert described
    assert [key for key, text in described.items() if not text] == []
    assert all(Policy.model_fields[key].description for key in ("name", "description"))


def test_only_named_variables_of_the_host_are_visible() -> None:
    assert PLAIN.variables.passed == ()
    assert Variables(passed=("B", "A", "B")).passed == ("A", "B")
    for name in ("", "A B", "1A", "A=1", "A" * 300):
        with pytest.raises(ValidationError, match="is not the name of an environment variable"):
            Variables(passed=(name,))


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        PLAIN.limits.wall = 60.0  # type: ignore[misc]


@pytest.mark.parametrize("part", [Policy, *map(type, PLAIN.sections().values())])
def test_an_unknown_key_is_refused_everywhere(part: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="surprise"):
        part.model_validate({"name": "x", "description": "y", "surprise": 1} if part is Policy else {"surprise": 1})


def test_strengths_and_network_modes_compare_by_rank_not_alphabet() -> None:
    assert Strength.PLAIN < Strength.PROCESS < Strength.CONTAINER < Strength.MACHINE
    assert NetworkMode.NONE < NetworkMode.PUBLIC < NetworkMode.INDEX < NetworkMode.HOST
    assert Strength.MACHINE >= "process"
    assert ReuseMode.NEVER > ReuseMode.BOX
    assert max(Strength) is Strength.MACHINE
    with pytest.raises(ValueError, match="unbreakable"):
        assert Strength.PLAIN < "unbreakable"


def test_required_layers_and_readable_paths_are_unique_and_sorted() -> None:
    isolation = Isolation.model_validate({"require": ["seccomp", "pid_namespace", "seccomp"]})
    assert isolation.require == (Layer.PID_NAMESPACE, Layer.SECCOMP)
    assert Filesystem(readable=("/usr/share", "/opt", "/opt")).readable == ("/opt", "/usr/share")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "data",
        "./data",
        "~/data",
        "/",
        "//",
        "//opt",
        "/opt/",
        "/opt//data",
        "/opt/./data",
        "/opt/../etc",
        "/..",
        "/opt\0",
        "/opt\n/data",
        "/o\u202ept",
        "/" + "x" * 5000,
        "/proc",
        "/proc/1/environ",
        "/sys/fs/cgroup",
        "/dev/shm",
        "/run",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/var/run",
        "/var/run/docker.sock",
        "/var",
    ],
)
def test_a_path_that_is_not_plain_or_shows_the_host_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        Filesystem(readable=(path,))


@pytest.mark.parametrize(
    "path", ["/opt", "/opt/data", "/running", "/devices/one", "/var/lib/data", "/opt/a..b", "/data/süß"]
)
def test_a_plain_path_is_accepted(path: str) -> None:
    assert Filesystem(readable=(path,)).readable == (path,)


def test_the_number_of_readable_paths_is_bounded() -> None:
    with pytest.raises(ValidationError):
        Filesystem(readable=tuple(f"/opt/{number}" for number in range(MAX_READABLE + 1)))


@pytest.mark.parametrize("ahead", [-1, 17, True, 1.5])
def test_children_ahead_are_between_0_and_16(ahead: object) -> None:
    assert Reuse(ahead=0).ahead == 0
    assert Reuse(ahead=16).ahead == 16
    with pytest.raises(ValidationError):
        Reuse.model_validate({"ahead": ahead})


@pytest.mark.parametrize("files", [0, 1, 8])
def test_the_limit_of_open_files_covers_the_start_of_a_call(files: int) -> None:
    assert Limits(open_files=9).open_files == 9
    with pytest.raises(ValidationError):
        Limits(open_files=files)


@pytest.mark.parametrize("memory", [1, 1024, "1KiB", "1MiB", 4 * MIB - 1])
def test_the_limit_of_memory_covers_the_start_of_a_call(memory: object) -> None:
    assert Limits(memory=4 * MIB).memory == 4 * MIB
    with pytest.raises(ValidationError):
        Limits.model_validate({"memory": memory})


@pytest.mark.parametrize("inodes", [0, 1, 15])
def test_the_limit_of_inodes_covers_the_start_of_a_call(inodes: int) -> None:
    assert Limits(inodes=16).inodes == 16
    with pytest.raises(ValidationError):
        Limits(inodes=inodes)


@pytest.mark.parametrize("name", ["", ".hidden", "a b", "a/b", "a\n", "x" * 65])
def test_an_ambiguous_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Policy(name=name, description="for tests")


@pytest.mark.parametrize("description", ["", " \n", "x" * 2001])
def test_an_empty_or_long_description_is_refused(description: str) -> None:
    with pytest.raises(ValidationError):
        Policy(name="x", description=description)


def test_values_are_spelled_as_people_write_them() -> None:
    assert PLAIN.limits.format_field("wall") == "30 s"
    assert PLAIN.limits.format_field("memory") == "512 MiB"
    assert PLAIN.limits.format_field("processes") == "64"
    assert PLAIN.network.format_field("mode") == "none"
    assert PLAIN.filesystem.format_field("readable") == "nothing"
    assert PLAIN.environment.format_field("verify") == "false"
    assert PLAIN.supply.format_field("exclude_newer") == "0 s"
    assert PLAIN.supply.format_field("allow") == "any"
    assert PLAIN.supply.format_field("deny") == "nothing"
    assert PLAIN.supply.format_field("indexes") == "the machine's own"
    assert PLAIN.isolation.format_field("require").startswith("user_namespace, mount_namespace")


def test_the_digest_ignores_name_and_description() -> None:
    assert Policy(name="other", description="other words").digest == PLAIN.digest
    assert len(PLAIN.digest) == 64


def test_the_digest_is_the_same_however_a_value_was_written() -> None:
    sections = {"limits": {"wall": "500ms", "memory": "1GiB"}, "isolation": {"require": ["seccomp", "rlimits"]}}
    same = {"limits": {"wall": 0.5, "memory": 2**30}, "isolation": {"require": ["rlimits", "seccomp", "rlimits"]}}
    digests = {Policy.model_validate({"name": "x", "description": "y", **part}).digest for part in (sections, same)}
    assert len(digests) == 1
    assert digests != {PLAIN.digest}


def test_a_changed_copy_has_a_digest_of_its_own() -> None:
    before = PLAIN.digest
    changed = PLAIN.model_copy(update={"limits": Limits(wall=1)})
    assert changed.digest != before
    assert PLAIN.model_copy(update={"name": "x"}, deep=True).digest == before


def test_equal_policies_are_one_key_with_and_without_a_digest() -> None:
    asked = Policy(name="plain", description="for tests")
    assert asked.digest
    fresh = Policy(name="plain", description="for tests")
    assert asked == fresh
    assert hash(asked) == hash(fresh)
    assert pickle.loads(pickle.dumps(asked)) == fresh


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process() -> None:
    program = "from sandbox.policy import Policy; print(Policy(name='x', description='y').digest)"
    command = [sys.executable, "-c", program]
    environments = [{**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    printed = {
        subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout for env in environments
    }
    assert printed == {f"{PLAIN.digest}\n"}
