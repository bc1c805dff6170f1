"""What is measured is what the kernel says, and a layer counts only where it was found."""

from __future__ import annotations

import os
import resource
from typing import Any, Final

import pytest

import measure
from sandbox.policy import Layer

EVERYTHING: Final[dict[str, Any]] = {
    "namespaces": ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"],
    "no_new_privs": True,
    "seccomp_filters": 2,
    "capabilities": dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0000000000000000"),
    "uid": 1000,
    "landlock": {"abi": 1},
}
NOTHING: Final[dict[str, Any]] = {
    "namespaces": [],
    "no_new_privs": False,
    "seccomp_filters": 0,
    "capabilities": {},
    "uid": 0,
    "landlock": None,
}
# The engine counts control groups from outside.
MEASURED: Final = [layer.value for layer in Layer if layer is not Layer.CGROUP]


def test_nothing_is_missing_where_everything_is_found() -> None:
    assert measure.missing(EVERYTHING, MEASURED) == []


def test_every_layer_that_is_not_found_is_missing_in_its_order() -> None:
    assert measure.missing(NOTHING, MEASURED) == [layer for layer in MEASURED if layer != "rlimits"]
    assert measure.missing(NOTHING, []) == []


@pytest.mark.parametrize("held", ["CapInh", "CapPrm", "CapEff", "CapAmb"])
def test_one_capability_is_enough_to_miss_the_layer(held: str) -> None:
    walls = {**EVERYTHING, "capabilities": {**EVERYTHING["capabilities"], held: "0000000000000001"}}
    assert measure.missing(walls, ["capabilities"]) == ["capabilities"]


def test_a_process_is_in_every_namespace_its_kernel_has() -> None:
    found = measure.namespaces()
    assert found["pid"] == os.readlink("/proc/self/ns/pid")
    assert len(set(found.values())) == len(found)


def test_only_namespaces_that_differ_from_those_around_are_in_force() -> None:
    around = {**measure.namespaces(), "network": "net:[1]"}
    plan = {"namespaces": ["network", "pid"], "workplace": None, "around": around}
    walls = measure.walls(plan, None)
    assert walls["namespaces"] == ["network"]
    assert (walls["uid"], walls["gid"], walls["workplace"], walls["landlock"]) == (os.getuid(), os.getgid(), None, None)
    assert walls["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert walls["cpus"] == len(os.sched_getaffinity(0))
    assert sorted(walls["capabilities"]) == ["CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm"]


def test_landlock_that_does_not_bite_is_not_in_force(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan: dict[str, Any] = {"namespaces": [], "workplace": None, "around": {}}
    assert measure.walls(plan, {"abi": 1})["landlock"] is None
    assert os.listdir(tmp_path) == []
