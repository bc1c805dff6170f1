"""Receipts: the controls that were really in force between a call and the host.

A receipt has two sources, and the request is neither of them: the backend's knowledge of the box from outside, and the
record that the call's guard read back from the kernel once the last layer was in force, before it forked the process
that runs the tool. A box whose record shows fewer layers than the policy requires gives no outcome at all. The engine
believes nothing of a box that sends no record, or one in an unknown form: the call has crashed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from sandbox.backends.base import Protection
from sandbox.backends.hints import missing_walls
from sandbox.errors import BoxLost, ProtocolError
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy, PolicyUsed, Receipt
from sandbox.policy import Layer, Policy, Strength

_Word = Annotated[str, Field(max_length=64)]
_NAMESPACES: Final = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
_HELD: Final = {"CapInh": "unknown", "CapPrm": "unknown", "CapEff": "unknown", "CapAmb": "0"}
"""The assumption for a set that is missing. The ambient set is always within the permitted one, and gVisor hides it."""
_PER_PROCESS: Final = ("open_files", "file_size")
_READ_BACK: Final = ("memory", "processes")
"""Limits that shape a box. The box reports them, and no call in it gets less."""
_FILE_LIMITS: Final = ("disk", "inodes")
_UNCOUNTED: Final = "nothing counts these files"
_PRIVATE: Final = "private tmpfs"
_WHOLE_BOX: Final = (Isolation.CONTAINER, Isolation.MACHINE)
_GROUP_LOST: Final = (
    "call again in a new box; if this repeats, find out what removes the control groups named sandbox-… on this host"
)
_NAMESPACE_LAYERS: Final = frozenset({Layer.USER_NAMESPACE, Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE})


class _Measured(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _with_process_limits(limits: dict[str, int]) -> dict[str, int]:
    missing = [name for name in _PER_PROCESS if name not in limits]
    if missing:
        raise ValueError(f"missing {', '.join(missing)}")
    return limits


class Landlock(_Measured):
    """The restrictions of Landlock."""

    abi: int
    filesystem: list[_Word]
    network: list[_Word]
    scoped: list[_Word]
    missing: list[_Word]
    is_shared: bool = False
    """Whether only the rules that all calls of an environment share were set before its packages ran."""


class Workplace(_Measured):
    """The folder that a call can write to."""

    bytes: int
    inodes: int
    read_only_root: bool


class CallLayers(_Measured):
    """The measurement in the form that the runner sends."""

    namespaces: list[_Word]
    no_new_privs: bool
    seccomp_filters: int
    capabilities: dict[_Word, _Word]
    uid: int
    gid: int
    landlock: Landlock | None
    interfaces: list[_Word] | None
    limits: Annotated[dict[_Word, int], AfterValidator(_with_process_limits)]
    cpus: int
    workplace: Workplace | None
    egress: _Word | None = None
    """The label of the socket on which the engine answers its connections, if it has one."""


class LayerFault(_Measured):
    """A layer that could not be set up."""

    layer: _Word
    reason: Annotated[str, Field(max_length=4096)]


class _Record(_Measured):
    walls: CallLayers | None = None
    fault: LayerFault | None = None


def read_layers(
    record: bytes, *, policy: Policy, around: Mapping[str, LayerState] | None = None, was_lost: bool = False
) -> CallLayers:
    """Return the layers of one call. Raise if they, with those `around` the whole box, are fewer than the policy
    requires."""
    if not record:
        raise BoxLost(
            "the process for the call died before its isolation was complete; the tool has not run", remedy="call again"
        )
    found = _parse(bytes(record))
    # A guard that reports a fault ends its call. If the box was lost instead, something else wrote the record.
    if found.fault is not None and was_lost:
        raise ProtocolError("a box reported a layer that failed, and went on")
    if found.fault is not None and found.fault.layer == Layer.CGROUP:
        raise BoxLost(f"{found.fault.reason[:300]}; the tool has not run", remedy=_GROUP_LOST)
    if found.fault is not None:
        raise missing_walls([found.fault.layer], policy=policy, reason=found.fault.reason)
    if found.walls is None:
        raise ProtocolError("a box ran a call without a record of its layers")
    states = _states(found.walls) | dict(around or {})
    missing = [layer for layer in _required(policy) if not states[layer].counts]
    if missing:
        raise missing_walls(missing, policy=policy, reason="not in force when measured")
    return found.walls


def egress_label(record: bytes) -> str:
    """Return the label of the socket for the call's connections, or "" if its guard handed none over."""
    walls = _parse(record).walls
    return (walls.egress if walls else None) or ""


def _required(policy: Policy) -> list[str]:
    return [layer.value for layer in policy.isolation.require if layer not in (Layer.CGROUP, Layer.OWN_UID)]


@lru_cache(maxsize=256)
def _parse(record: bytes) -> _Record:
    # Nearly every call of a box sends the same record.
    try:
        return _Record.model_validate(from_json(record, allow_inf_nan=False))
    except (ValueError, ValidationError, RecursionError) as error:
        raise ProtocolError(f"the record of a box's layers is invalid: {str(error)[:200]}") from None


def _states(walls: CallLayers) -> dict[str, LayerState]:
    """Return the state of every layer that the runner measures for one call."""
    held = {name: walls.capabilities.get(name, unknown) for name, unknown in _HELD.items()}
    none_held = all(set(value) == {"0"} for value in held.values())
    return {f"{kind}_namespace": _namespace(kind, walls) for kind in _NAMESPACES} | {
        "seccomp": _read(f"{walls.seccomp_filters} filters", in_force=walls.seccomp_filters > 0),
        "landlock": _landlock(walls.landlock),
        "no_new_privs": _read("set" if walls.no_new_privs else "not set", in_force=walls.no_new_privs),
        "capabilities": _read("none held" if none_held else f"effective {held['CapEff']}", in_force=none_held),
        "rlimits": _read(", ".join(walls.limits), in_force=bool(walls.limits)),
    }


def _read(detail: str, *, in_force: bool) -> LayerState:
    return LayerState(in_force=in_force, detail=detail, measured_by=MeasuredBy.READ_OUTSIDE)


def _namespace(kind: str, walls: CallLayers) -> LayerState:
    if kind not in walls.namespaces:
        return _read("shared with the box", in_force=False)
    if kind != "network":
        return _read("its own", in_force=True)
    interfaces = "unknown" if walls.interfaces is None else ", ".join(walls.interfaces) or "none"
    return _read(f"its own; interfaces: {interfaces}", in_force=True)


def _landlock(landlock: Landlock | None) -> LayerState:
    # The kernel does not show Landlock to other processes.
    if landlock is None:
        detail = "this kernel has no Landlock, or a forbidden access succeeded"
        return LayerState(in_force=False, detail=detail, measured_by=MeasuredBy.NONE)
    detail = f"ABI {landlock.abi}; a forbidden access was refused when tried"
    if landlock.is_shared:
        detail += "; set before packages ran, without rules on paths, which each process sets itself"
    return LayerState(in_force=True, detail=detail, measured_by=MeasuredBy.SET_BY_ENGINE)


def build_receipt(
    protection: Protection, walls: CallLayers, *, policy: Policy, environment_key: str, limits: Mapping[str, Any]
) -> Receipt:
    """Return the receipt of one call. `limits` are those of the call, which may be lower than the box's."""
    states = {**_states(walls), **protection.layers}
    for layer, detail in protection.details.items():
        states[layer] = states[layer].model_copy(update={"detail": f"{states[layer].detail}; {detail}"})
    is_walled = protection.isolation in _WHOLE_BOX or all(states[layer.value].counts for layer in _NAMESPACE_LAYERS)
    notes = protection.notes
    if not is_walled:
        notes = (*notes, "plain: limits and filters only, no namespaces around the call")
    return Receipt(
        backend=protection.backend,
        isolation=protection.isolation if is_walled else Isolation.PLAIN,
        layers=states,
        network=protection.network,
        user=protection.user,
        limits=_limits(protection, walls, limits),
        runtime=protection.runtime,
        environment_digest=environment_key,
        policy=PolicyUsed(name=policy.name, digest=policy.digest),
        notes=notes,
    )


def _limits(protection: Protection, walls: CallLayers, asked: Mapping[str, Any]) -> dict[str, LimitState]:
    found = dict(protection.limits)
    for name in found.keys() & asked.keys() - set(_READ_BACK):
        found[name] = found[name].model_copy(update={"value": asked[name]})
    for name in _PER_PROCESS:
        least = min(walls.limits[name], asked.get(name, walls.limits[name]))
        found[name] = LimitState(value=least, enforced_by=EnforcedBy.RLIMIT, note="per process")
    found |= _file_limits(walls.workplace, asked)
    found.setdefault("cpus", _shown_cpus(walls))
    for name, evidence in protection.loose.items():
        if name in found:
            found[name] = LimitState(value=found[name].value, enforced_by=EnforcedBy.NONE, note=evidence)
    return found


def _file_limits(workplace: Workplace | None, asked: Mapping[str, Any]) -> dict[str, LimitState]:
    # gVisor counts the bytes of files and not their number.
    counted = {} if workplace is None else {"disk": workplace.bytes, "inodes": workplace.inodes}
    found = {
        name: LimitState(value=asked[name], enforced_by=EnforcedBy.NONE, note=_UNCOUNTED)
        for name in _FILE_LIMITS
        if name in asked
    }
    for name, value in counted.items():
        if value or name not in found:
            found[name] = LimitState(value=value, enforced_by=EnforcedBy.FILESYSTEM, note=_PRIVATE)
    return found


def _shown_cpus(walls: CallLayers) -> LimitState:
    """Return the processors that a call sees, if nothing counts its time on them."""
    is_all = walls.cpus >= (os.cpu_count() or 1)
    note = "all processors of this machine" if is_all else "affinity, which a tool can change"
    return LimitState(value=walls.cpus, enforced_by=EnforcedBy.ADVISORY, note=note)


def is_at_least(receipt: Receipt, minimum: Strength) -> bool:
    """Return whether a receipt shows the strength that a policy asks for."""
    return Strength(receipt.isolation.value) >= minimum
