"""A receipt shows the limits of the call's group as the kernel has them, and who vouches for each layer and limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.policy import Layer
from tests.end_to_end.calls import TRIVIAL
from tests.escape.without_root import run_without_root

pytestmark = pytest.mark.slow

RUNNER_READS: Final = {layer.value for layer in Layer} - {"landlock", "cgroup", "own_uid"}
KEEPERS: Final = {
    "wall": "watcher",
    "output": "watcher",
    "value": "watcher",
    "open_files": "rlimit",
    "file_size": "rlimit",
    "disk": "filesystem",
    "inodes": "filesystem",
}
COUNTED: Final = ("cpu", "memory", "processes")


def receipt_of(**limits: int) -> dict[str, Any]:
    """The receipt's JSON of a real call."""
    with Sandbox() as engine:
        receipt = engine.run(TRIVIAL, {"a": 1, "b": 2}, limits=limits).receipt
    assert receipt is not None
    document: dict[str, Any] = receipt.model_dump(mode="json")
    return document


def keepers(receipt: dict[str, Any]) -> dict[str, str]:
    return {name: state["enforced_by"] for name, state in receipt["limits"].items()}


@pytest.mark.root
@pytest.mark.parametrize(("asked", "kept"), [(16 << 20, 16 << 20), (20_000_001, 19_996_672)], ids=["whole", "part"])
def test_the_memory_reported_is_that_of_the_calls_group_in_whole_pages(asked: int, kept: int) -> None:
    receipt = receipt_of(memory=asked, processes=7)
    limits = {name: receipt["limits"][name]["value"] for name in ("memory", "processes")}
    assert limits == {"memory": kept, "processes": 7}
    assert "7 processes" in receipt["layers"]["cgroup"]["detail"]
    assert "64 MiB" not in receipt["layers"]["cgroup"]["detail"]


@pytest.mark.root
def test_every_layer_of_a_call_of_root_says_who_measured_it() -> None:
    layers = receipt_of()["layers"]
    assert set(layers) == {layer.value for layer in Layer}
    expected = dict.fromkeys({*RUNNER_READS, "cgroup"}, "read_outside")
    expected |= dict.fromkeys(("landlock", "own_uid"), "set_by_engine")
    in_force = {name for name, state in layers.items() if state["in_force"]}
    assert in_force >= set(expected) - {"landlock"}
    assert {name: layers[name]["measured_by"] for name in in_force} == {name: expected[name] for name in in_force}


@pytest.mark.root
def test_every_limit_of_a_call_of_root_names_its_keeper() -> None:
    assert keepers(receipt_of(cpus=1)) == KEEPERS | dict.fromkeys((*COUNTED, "cpus"), "cgroup")


def test_a_receipt_without_root_uses_the_same_words(unprivileged_python: Path) -> None:
    receipt = run_without_root(unprivileged_python, TRIVIAL, {"a": 1, "b": 2}, limits={"cpus": 1})["receipt"]
    layers = receipt["layers"]
    assert (layers["own_uid"]["in_force"], layers["own_uid"]["measured_by"]) == (False, "none")
    assert {layers[name]["measured_by"] for name in RUNNER_READS} == {"read_outside"}
    if not layers["cgroup"]["in_force"]:
        assert layers["cgroup"]["measured_by"] == "none"
        counted = {"cpu": "watcher", "memory": "watcher", "processes": "rlimit", "cpus": "advisory"}
        assert keepers(receipt) == KEEPERS | counted
