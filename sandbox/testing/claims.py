"""The layers that a fake box claims: all that a policy can ask for, without those that it should miss.

None of it is true, and every receipt says so in its notes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sandbox.backends.base import Protection, engine_limits
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy
from sandbox.policy import Layer, Policy

_NAMESPACE: Final = "_namespace"
_NOTE: Final = "a fake: nothing is isolated or limited, and the tool's source does not run"


def claimed_protection(policy: Policy, *, missing: Collection[str]) -> Protection:
    """The walls as seen from outside."""
    limits = policy.limits
    claimed = {"cpu": limits.cpu, "memory": limits.memory, "processes": limits.processes}
    return Protection(
        backend="fake",
        isolation=Isolation(policy.isolation.minimum.value),
        layers={layer.value: _state(layer, missing) for layer in Layer},
        limits=engine_limits(limits) | {name: _unkept(value) for name, value in claimed.items()},
        network=policy.network.mode.value,
        user="nobody",
        notes=(_NOTE,),
    )


def _state(layer: Layer, missing: Collection[str]) -> LayerState:
    if layer.value in missing:
        return LayerState(in_force=False, detail="missing, as the test asked", measured_by=MeasuredBy.NONE)
    return LayerState(in_force=True, detail="claimed by a fake", measured_by=MeasuredBy.SET_BY_ENGINE)


def _unkept(value: float) -> LimitState:
    return LimitState(value=value, enforced_by=EnforcedBy.NONE, note="a fake enforces nothing")


def claimed_walls(policy: Policy, *, missing: Collection[str]) -> dict[str, Any]:
    """The record that a call's process would send of what it measured."""
    limits = policy.limits
    namespaces = [layer.value for layer in Layer if layer.value.endswith(_NAMESPACE) and layer.value not in missing]
    held = "1" if Layer.CAPABILITIES in missing else "0000000000000000"
    return {
        "namespaces": [layer.removesuffix(_NAMESPACE) for layer in namespaces],
        "no_new_privs": Layer.NO_NEW_PRIVS not in missing,
        "seccomp_filters": int(Layer.SECCOMP not in missing),
        "capabilities": dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), held),
        "uid": 1000,
        "gid": 1000,
        "landlock": None if Layer.LANDLOCK in missing else _LANDLOCK,
        "interfaces": ["lo"],
        "limits": {"open_files": limits.open_files, "file_size": limits.file_size},
        "cpus": limits.cpus,
        "workplace": {"bytes": limits.disk, "inodes": limits.inodes, "read_only_root": True},
    }


_LANDLOCK: Final[dict[str, Any]] = {"abi": 1, "filesystem": [], "network": [], "scoped": [], "missing": []}
