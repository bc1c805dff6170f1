"""A process is verified by facts of the kernel, and a layer counts only if it was found."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from box import verification
from box.isolation import IsolationFault
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
OWN: Final = str(os.getpid())


@pytest.fixture
def plan() -> dict[str, Any]:
    return {"namespaces": [], "around": verification.namespaces(), "workplace": None, "required": []}


@pytest.fixture
def child() -> Iterator[verification.ProcessRef]:
    """Start a process other than this one."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield verification.ProcessRef(str(process.pid), process.pid)
        process.kill()


def test_nothing_is_missing_where_everything_is_found() -> None:
    assert verification.find_missing(EVERYTHING, MEASURED) == []


def test_every_layer_that_is_not_found_is_missing_in_its_order() -> None:
    assert verification.find_missing(NOTHING, MEASURED) == [layer for layer in MEASURED if layer != "rlimits"]
    assert verification.find_missing(NOTHING, []) == []


@pytest.mark.parametrize("held", ["CapInh", "CapPrm", "CapEff", "CapAmb"])
def test_one_capability_is_enough_to_miss_the_layer(held: str) -> None:
    walls = {**EVERYTHING, "capabilities": {**EVERYTHING["capabilities"], held: "0000000000000001"}}
    assert verification.find_missing(walls, ["capabilities"]) == ["capabilities"]


def test_a_process_is_in_every_namespace_its_kernel_has() -> None:
    found = verification.namespaces()
    assert found["pid"] == os.readlink("/proc/self/ns/pid")
    assert len(set(found.values())) == len(found)


def test_only_namespaces_that_differ_from_those_around_are_in_force(
    plan: dict[str, Any], child: verification.ProcessRef
) -> None:
    plan["around"] = {**plan["around"], "network": "net:[1]"}
    walls = verification.interpret(verification.read(plan, verification.GuardFacts(plan, None), child), None)
    assert walls["namespaces"] == ["network"]
    assert (walls["uid"], walls["gid"], walls["workplace"], walls["landlock"]) == (os.getuid(), os.getgid(), None, None)
    assert walls["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert walls["cpus"] == len(os.sched_getaffinity(0))
    assert sorted(walls["capabilities"]) == ["CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm"]


def test_limits_are_those_of_the_other_process(plan: dict[str, Any], child: verification.ProcessRef) -> None:
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (64, 64))
    walls = verification.interpret(verification.read(plan, verification.GuardFacts(plan, None), child), None)
    assert walls["limits"]["open_files"] == 64


def test_landlock_that_does_not_bite_is_not_in_force(
    plan: dict[str, Any], child: verification.ProcessRef, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        verification.interpret(verification.read(plan, verification.GuardFacts(plan, {"abi": 1}), child), {"abi": 1})[
            "landlock"
        ]
        is None
    )
    assert os.listdir(tmp_path) == []


def test_the_same_text_gives_the_record_that_is_known(plan: dict[str, Any], child: verification.ProcessRef) -> None:
    record, said = verification.verify(plan, verification.GuardFacts(plan, None), child)
    assert said is not None
    verification.remember(plan, said, b'{"walls": "as before"}')
    assert verification.verify(plan, verification.GuardFacts(plan, None), child) == (b'{"walls": "as before"}', None)
    plan["around"] = {**plan["around"], "network": "net:[1]"}
    assert json.loads(verification.verify(plan, verification.GuardFacts(plan, None), child)[0])["walls"][
        "namespaces"
    ] == ["network"]
    assert json.loads(record)["walls"]["namespaces"] == []


def test_a_missing_wall_is_a_fault(plan: dict[str, Any], child: verification.ProcessRef) -> None:
    plan["required"] = ["pid_namespace"]
    with pytest.raises(IsolationFault) as fault:
        verification.verify(plan, verification.GuardFacts(plan, None), child)
    assert fault.value.layer == "pid_namespace"


def test_a_process_that_is_gone_cannot_be_verified(plan: dict[str, Any]) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        with pytest.raises(IsolationFault):
            verification.verify(
                plan, verification.GuardFacts(plan, None), verification.ProcessRef(str(process.pid), process.pid)
            )


@pytest.mark.root
def test_a_process_in_other_namespaces_is_not_verified(plan: dict[str, Any]) -> None:
    plan["namespaces"] = ["network"]
    with subprocess.Popen(["unshare", "--net", "sleep", "60"], stdout=subprocess.PIPE) as process:
        while os.readlink(f"/proc/{process.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert process.poll() is None
        with pytest.raises(IsolationFault) as fault:
            verification.verify(
                plan, verification.GuardFacts(plan, None), verification.ProcessRef(str(process.pid), process.pid)
            )
        process.kill()
    assert fault.value.layer == "pid_namespace"


def test_only_a_child_of_the_guard_is_its_subject(child: verification.ProcessRef) -> None:
    found = verification.subject_of(child.number, guard=OWN)
    assert (found.number, found.pid) == (child.number, child.pid)
    with pytest.raises(IsolationFault):
        verification.subject_of(child.number, guard="1")
    for number in ("", "no number", "0", "4194305", OWN):
        with pytest.raises(IsolationFault):
            verification.subject_of(number, guard=OWN)


def test_a_process_with_threads_is_no_subject() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(IsolationFault, match="threads"):
            verification.subject_of(OWN, guard=str(os.getppid()))
    finally:
        done.set()
        thread.join()


def test_processor_time_is_that_of_the_other_process() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as process:
        while verification.cpu_seconds(process.pid) < 0.05:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)


def test_time_in_another_group_is_not_in_a_calls_record(child: verification.ProcessRef) -> None:
    used = verification.cpu_seconds(child.pid)
    own = time.process_time()
    spent = json.loads(verification.describe_spent({}, child.pid))["cpu_s"]
    assert used - 1e-4 <= spent <= verification.cpu_seconds(child.pid) + 1e-4
    counted = json.loads(verification.describe_spent({"is_counted": True}, child.pid, elsewhere=used))["cpu_s"]
    assert own - 1e-3 <= counted <= time.process_time() + 1
