"""A receipt reports measured isolation; insufficient or malformed reports give an error instead."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.backends.hints import refuse_weaker
from sandbox.engine.receipts import build_receipt, is_at_least, read_layers
from sandbox.errors import BoxLost, HostExhausted, IsolationUnavailable, ProtocolError
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy, Receipt
from sandbox.policy import Layer, Policy, Strength, load
from sandbox.testing.claims import claimed_protection, claimed_walls

POLICY: Final = load("default")
MEASURED: Final = [layer for layer in Layer if layer not in (Layer.CGROUP, Layer.OWN_UID)]


def requiring(*layers: Layer) -> Policy:
    return POLICY.model_copy(update={"isolation": POLICY.isolation.model_copy(update={"require": layers})})


def record(walls: dict[str, Any] | None = None, **fields: Any) -> bytes:
    told = {"walls": claimed_walls(POLICY, missing=()) if walls is None else walls, **fields}
    return json.dumps(told).encode()


def measured(*, missing: Collection[str] = (), **changes: Any) -> dict[str, Any]:
    return claimed_walls(POLICY, missing=missing) | changes


def receipt_of(walls: dict[str, Any], *, policy: Policy = POLICY, **limits: float) -> Receipt:
    found = read_layers(record(walls), policy=requiring())
    silent = replace(claimed_protection(POLICY, missing=()), layers={}, notes=())
    asked = policy.limits.model_dump() | limits
    return build_receipt(silent, found, policy=policy, environment_key="key", limits=asked)


# Insufficient isolation


@pytest.mark.parametrize("layer", [layer for layer in MEASURED if layer is not Layer.RLIMITS])
def test_a_missing_required_layer_is_refused_by_name_with_a_remedy(layer: Layer) -> None:
    with pytest.raises(IsolationUnavailable) as refusal:
        read_layers(record(measured(missing=[layer])), policy=requiring(layer))
    assert refusal.value.missing == (layer.value,)
    assert layer.value in refusal.value.message
    assert refusal.value.remedy


@pytest.mark.parametrize("layer", MEASURED)
def test_an_optional_layer_may_be_missing(layer: Layer) -> None:
    others = [other for other in MEASURED if other is not layer]
    read_layers(record(measured(missing=[layer])), policy=requiring(*others))


def test_every_missing_layer_is_named() -> None:
    with pytest.raises(IsolationUnavailable) as refusal:
        read_layers(record(measured(missing=["seccomp", "user_namespace"])), policy=POLICY)
    assert refusal.value.missing == ("user_namespace", "seccomp")


def test_a_failed_layer_is_refused_with_the_reason() -> None:
    told = json.dumps({"fault": {"layer": "landlock", "reason": "Operation not permitted"}}).encode()
    with pytest.raises(IsolationUnavailable, match="Operation not permitted") as refusal:
        read_layers(told, policy=POLICY)
    assert refusal.value.missing == ("landlock",)


@pytest.mark.parametrize("held", ["0000000000000001", "1", "", "unknown"])
@pytest.mark.parametrize("kind", ["CapInh", "CapPrm", "CapEff", "CapAmb"])
def test_one_held_capability_is_not_none(kind: str, held: str) -> None:
    capabilities = claimed_walls(POLICY, missing=())["capabilities"] | {kind: held}
    with pytest.raises(IsolationUnavailable):
        read_layers(record(measured(capabilities=capabilities)), policy=requiring(Layer.CAPABILITIES))


# Malformed reports


@pytest.mark.parametrize(
    "told",
    [
        b"{}",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"walls":null}',
        record(measured(more=1)),
        record({name: value for name, value in measured().items() if name != "uid"}),
        record(measured(seccomp_filters="1")),
        record(measured(namespaces="user")),
        record(measured(limits={})),
        record(measured(limits={"open_files": 1})),
        record(measured(uid=1e999)),
        record(measured(namespaces=["x" * 100])),
    ],
)
def test_a_malformed_isolation_report_is_a_protocol_error(told: bytes) -> None:
    with pytest.raises(ProtocolError) as refusal:
        read_layers(told, policy=POLICY)
    assert len(refusal.value.message) < 400


@pytest.mark.parametrize(
    "told",
    [b"", b'{"fault":{"layer":"cgroup","reason":"the call\'s group cannot be entered"}}'],
    ids=["nothing", "group"],
)
def test_a_process_that_failed_to_isolate_is_a_lost_box_with_a_remedy(told: bytes) -> None:
    with pytest.raises(BoxLost) as lost:
        read_layers(told, policy=POLICY)
    assert not isinstance(lost.value, ProtocolError)
    assert "has not run" in lost.value.message
    assert lost.value.remedy


def test_a_failed_fork_for_the_tool_is_a_temporary_shortage() -> None:
    told = b'{"fault":{"layer":"processes","reason":"[Errno 11] Resource temporarily unavailable"}}'
    with pytest.raises(HostExhausted) as shortage:
        read_layers(told, policy=POLICY)
    assert shortage.value.retryable
    assert "ulimit -u" in str(shortage.value)


@pytest.mark.slow
@given(
    st.binary(max_size=100)
    | st.dictionaries(st.text(max_size=5), st.none()).map(lambda told: json.dumps(told).encode())
)
def test_any_bytes_are_a_report_or_an_error_of_the_engine(told: bytes) -> None:
    with pytest.raises((BoxLost, IsolationUnavailable)):
        read_layers(told, policy=POLICY)


# Contents of a receipt


def test_a_receipt_has_every_layer_that_was_measured() -> None:
    receipt = receipt_of(measured(missing=["landlock"]))
    assert {name: state.in_force for name, state in receipt.layers.items()} == {
        layer.value: layer is not Layer.LANDLOCK for layer in MEASURED
    }


def test_facts_visible_from_outside_come_from_the_backend() -> None:
    protection = claimed_protection(POLICY, missing=("cgroup",))
    walls = read_layers(record(), policy=POLICY)
    receipt = build_receipt(protection, walls, policy=POLICY, environment_key="key", limits={})
    assert (receipt.layers["cgroup"].in_force, receipt.layers["own_uid"].in_force) == (False, True)
    assert receipt.backend == "fake"
    assert any("fake" in note for note in receipt.notes)


def test_a_receipt_names_the_policy_and_the_environment() -> None:
    receipt = receipt_of(measured())
    assert (receipt.policy.name, receipt.policy.digest) == (POLICY.name, POLICY.digest)
    assert receipt.environment_digest == "key"


@pytest.mark.parametrize("layer", ["user_namespace", "mount_namespace", "pid_namespace"])
def test_a_box_without_a_namespace_is_reported_as_plain(layer: str) -> None:
    receipt = receipt_of(measured(missing=[layer]))
    assert receipt.isolation is Isolation.PLAIN
    assert any("plain" in note for note in receipt.notes)
    assert not is_at_least(receipt, Strength.PROCESS)


def test_an_isolated_box_is_reported_with_its_strength() -> None:
    receipt = receipt_of(measured())
    assert receipt.isolation is Isolation.PROCESS
    assert is_at_least(receipt, Strength.PLAIN)
    assert is_at_least(receipt, Strength.PROCESS)
    assert not is_at_least(receipt, Strength.CONTAINER)


def test_limits_of_a_stricter_call_are_its_own() -> None:
    receipt = receipt_of(measured(), wall=2.0, open_files=10)
    assert receipt.limits["wall"].value == 2.0
    assert receipt.limits["open_files"].value == 10
    assert receipt.limits["memory"].value == POLICY.limits.memory


def test_limits_are_the_measured_ones_if_these_are_lower() -> None:
    limits = {"open_files": 7, "file_size": POLICY.limits.file_size}
    receipt = receipt_of(measured(limits=limits, workplace={"bytes": 5, "inodes": 6, "read_only_root": True}, cpus=1))
    found = {name: receipt.limits[name].value for name in ("open_files", "disk", "inodes", "cpus")}
    assert found == {"open_files": 7, "disk": 5, "inodes": 6, "cpus": 1}


@pytest.mark.parametrize("found", [POLICY.limits.memory - 4096, POLICY.limits.memory * 2])
def test_the_memory_limit_is_the_one_read_back(found: int) -> None:
    limits = {"memory": LimitState(value=found, enforced_by=EnforcedBy.CGROUP)}
    boxed = replace(claimed_protection(POLICY, missing=()), limits=limits)
    walls, asked = read_layers(record(), policy=requiring()), POLICY.limits.model_dump()
    receipt = build_receipt(boxed, walls, policy=POLICY, environment_key="key", limits=asked)
    assert receipt.limits["memory"].value == found


def test_an_uncounted_processor_limit_is_a_hint() -> None:
    machine = os.cpu_count() or 1
    some, all_there_are = (receipt_of(measured(cpus=cpus)).limits["cpus"] for cpus in (0, machine))
    assert (some.enforced_by, some.note) == (EnforcedBy.ADVISORY, "affinity, which a tool can change")
    assert (all_there_are.enforced_by, all_there_are.note) == (EnforcedBy.ADVISORY, "all processors of this machine")


def test_the_quota_of_the_box_limits_its_processors() -> None:
    quota = LimitState(value=2, enforced_by=EnforcedBy.CGROUP, note="quota")
    found = read_layers(record(measured(cpus=7)), policy=requiring())
    boxed = replace(claimed_protection(POLICY, missing=()), limits={"cpus": quota})
    receipt = build_receipt(boxed, found, policy=POLICY, environment_key="key", limits={"cpus": 1})
    assert receipt.limits["cpus"] == quota.model_copy(update={"value": 1})


def test_a_box_without_a_workplace_claims_no_disk_limit() -> None:
    receipt = receipt_of(measured(workplace=None))
    found = {name: receipt.limits[name].enforced_by for name in ("disk", "inodes")}
    assert found == {"disk": EnforcedBy.NONE, "inodes": EnforcedBy.NONE}


def test_files_that_gvisor_does_not_count_have_no_enforcer() -> None:
    receipt = receipt_of(measured(workplace={"bytes": 5, "inodes": 0, "read_only_root": True}))
    disk, inodes = receipt.limits["disk"], receipt.limits["inodes"]
    assert (disk.value, disk.enforced_by) == (5, EnforcedBy.FILESYSTEM)
    assert (inodes.value, inodes.enforced_by) == (POLICY.limits.inodes, EnforcedBy.NONE)


def test_a_limit_that_a_probe_broke_has_the_evidence_as_its_note() -> None:
    loose = replace(claimed_protection(POLICY, missing=()), loose={"memory": "it held four times as much"})
    walls, asked = read_layers(record(), policy=requiring()), POLICY.limits.model_dump()
    state = build_receipt(loose, walls, policy=POLICY, environment_key="key", limits=asked).limits["memory"]
    assert (state.enforced_by, state.note) == (EnforcedBy.NONE, "it held four times as much")


# Sources of a receipt


def test_every_layer_the_runner_reports_is_read_outside_but_landlock() -> None:
    layers = receipt_of(measured()).layers
    assert layers.pop("landlock").measured_by is MeasuredBy.SET_BY_ENGINE
    assert {state.measured_by for state in layers.values()} == {MeasuredBy.READ_OUTSIDE}


def test_missing_landlock_is_measured_by_nothing() -> None:
    assert receipt_of(measured(missing=["landlock"])).layers["landlock"].measured_by is MeasuredBy.NONE


@pytest.mark.parametrize("layer", Layer)
def test_an_unmeasured_required_layer_is_refused(layer: Layer) -> None:
    state = LayerState(in_force=True, detail="the box says so", measured_by=MeasuredBy.NONE)
    believed = claimed_protection(POLICY, missing=())
    doubted = replace(believed, layers={**believed.layers, layer.value: state})
    refuse_weaker(believed, policy=requiring(layer))
    with pytest.raises(IsolationUnavailable, match="the box says so, but trusted code neither") as refusal:
        refuse_weaker(doubted, policy=requiring(layer))
    assert refusal.value.missing == (layer.value,)


@pytest.mark.parametrize("layer", MEASURED)
def test_a_call_without_a_measured_required_layer_is_refused(layer: Layer) -> None:
    around = {layer.value: LayerState(in_force=True, detail="", measured_by=MeasuredBy.NONE)}
    with pytest.raises(IsolationUnavailable) as refusal:
        read_layers(record(), policy=requiring(layer), around=around)
    assert refusal.value.missing == (layer.value,)


def test_a_box_with_unmeasured_namespaces_is_plain() -> None:
    state = LayerState(in_force=True, detail="", measured_by=MeasuredBy.NONE)
    boxed = replace(claimed_protection(POLICY, missing=()), layers={"pid_namespace": state})
    walls = read_layers(record(), policy=requiring())
    receipt = build_receipt(boxed, walls, policy=POLICY, environment_key="key", limits={})
    assert receipt.isolation is Isolation.PLAIN
