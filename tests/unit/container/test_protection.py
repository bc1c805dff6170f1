"""A container's half of a receipt comes from the daemon's configuration and the limit probes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from sandbox.backends.base import Protection
from sandbox.backends.container.container_config import Container, create_body
from sandbox.backends.container.isolation import read_protection
from sandbox.backends.container.probe_cache import RuntimeLimits
from sandbox.backends.hints import refuse_weaker
from sandbox.backends.limit_probes import LimitFinding
from sandbox.errors import IsolationUnavailable
from sandbox.outcome import EnforcedBy, MeasuredBy
from sandbox.policy import Layer, Policy, load

WARM: Final = load("default")
SINGLE_USE: Final = load("strict")
LOOSE: Final = {"memory": LimitFinding(is_enforced=False, evidence="it held four times as much")}


def configured(policy: Policy, *, runtime: str = "runc", **changes: Any) -> dict[str, Any]:
    """Return the answer of a daemon that honours all that it is asked for."""
    container = Container(
        image="image", command=(), user=70_000, labels={}, seccomp="seccomp={}", runtime=runtime, host_cpus=4
    )
    asked: dict[str, Any] = create_body(container, policy)
    return {"Config": {"User": asked["User"]}, "HostConfig": asked["HostConfig"] | changes}


def inspected(
    policy: Policy,
    *,
    runtime: str = "runc",
    is_metered: bool = True,
    findings: dict[Any, LimitFinding] | None = None,
    **changes: Any,
) -> Protection:
    limits = RuntimeLimits(runtime=runtime, findings=findings or {}, found=datetime.now(UTC))
    said = configured(policy, runtime=runtime, **changes)
    return read_protection(said, policy=policy, limits=limits, is_metered=is_metered)


@pytest.mark.parametrize("policy", [WARM, SINGLE_USE], ids=["warm", "single use"])
@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_every_layer_comes_from_the_daemons_configuration(policy: Policy, runtime: str) -> None:
    found = inspected(policy, runtime=runtime)
    assert {state.measured_by for state in found.layers.values()} == {MeasuredBy.DAEMON_CONFIG}
    assert all(state.counts for state in found.layers.values())


@pytest.mark.parametrize(
    ("runtime", "is_metered", "cpu", "processes"),
    [
        ("runc", True, EnforcedBy.CGROUP, EnforcedBy.CGROUP),
        ("runc", False, EnforcedBy.WATCHER, EnforcedBy.CGROUP),
        ("runsc", True, EnforcedBy.CGROUP, EnforcedBy.RUNTIME),
    ],
)
def test_every_limit_names_what_enforces_it(
    runtime: str, is_metered: bool, cpu: EnforcedBy, processes: EnforcedBy
) -> None:
    found = inspected(SINGLE_USE, runtime=runtime, is_metered=is_metered)
    assert {name: state.enforced_by for name, state in found.limits.items()} == {
        "wall": EnforcedBy.WATCHER,
        "output": EnforcedBy.WATCHER,
        "value": EnforcedBy.WATCHER,
        "cpu": cpu,
        "memory": EnforcedBy.CGROUP,
        "processes": processes,
        "cpus": EnforcedBy.CGROUP,
    }
    assert found.limits["memory"].value == SINGLE_USE.limits.memory
    assert found.limits["processes"].value == SINGLE_USE.limits.processes


def test_limits_that_the_daemon_ignores_have_no_enforcer() -> None:
    found = inspected(SINGLE_USE, Memory=0, PidsLimit=None)
    for name, asked in (("memory", SINGLE_USE.limits.memory), ("processes", SINGLE_USE.limits.processes)):
        assert (found.limits[name].value, found.limits[name].enforced_by) == (asked, EnforcedBy.NONE)
        assert found.limits[name].note
    assert not found.layers["cgroup"].counts


def test_control_groups_that_a_probe_broke_are_refused_with_evidence() -> None:
    isolation = SINGLE_USE.isolation.model_copy(update={"require": (Layer.CGROUP,)})
    relying = SINGLE_USE.model_copy(update={"isolation": isolation})
    refuse_weaker(inspected(relying, runtime="runsc"), policy=relying)
    with pytest.raises(IsolationUnavailable, match="four times as much") as refusal:
        refuse_weaker(inspected(relying, runtime="runsc", findings=LOOSE), policy=relying)
    assert refusal.value.missing == ("cgroup",)
