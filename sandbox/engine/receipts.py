"""Receipts: what really stood between a call and the host.

Two sources, neither of them the request: what the backend knows of the box from outside, and what the call's guard read
back from the kernel once its last wall was up, before it forked the process that runs the tool. A box that describes
fewer walls than the policy requires gives no outcome at all; of one that does not describe them, or not in any known
way, nothing is believed, and what ran in it has crashed.
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
"""What to think where one is not told. The ambient set is always within the permitted one; gVisor does not show it."""
_PER_PROCESS: Final = ("open_files", "file_size")
_READ_BACK: Final = ("memory", "processes")
"""Limits that shape a call's box, which tells what it has; no call of it is given less."""
_OF_FILES: Final = ("disk", "inodes")
_UNCOUNTED: Final = "nothing counts these files"
_PRIVATE: Final = "private tmpfs"
_OF_THE_BOX: Final = (Isolation.CONTAINER, Isolation.MACHINE)
_GROUP_LOST: Final = (
    "call again, in a new box; if it happens often, find out what removes the control groups called sandbox-… here"
)
_WALLS: Final = frozenset({Layer.USER_NAMESPACE, Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE})


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _with_what_is_told(limits: dict[str, int]) -> dict[str, int]:
    missing = [name for name in _PER_PROCESS if name not in limits]
    if missing:
        raise ValueError(f"without {', '.join(missing)}")
    return limits


class Landlock(_Told):
    """What Landlock restricts."""

    abi: int
    filesystem: list[_Word]
    network: list[_Word]
    scoped: list[_Word]
    missing: list[_Word]
    is_shared: bool = False
    """Whether only the part that all calls of an environment share was put up before its packages ran."""


class Workplace(_Told):
    """The place a call can write to."""

    bytes: int
    inodes: int
    read_only_root: bool


class CallLayers(_Told):
    """The measurement, as the runner sends it."""

    namespaces: list[_Word]
    no_new_privs: bool
    seccomp_filters: int
    capabilities: dict[_Word, _Word]
    uid: int
    gid: int
    landlock: Landlock | None
    interfaces: list[_Word] | None
    limits: Annotated[dict[_Word, int], AfterValidator(_with_what_is_told)]
    cpus: int
    workplace: Workplace | None
    egress: _Word | None = None
    """The label of what the engine answers its connections on; none where it has none."""


class LayerFault(_Told):
    """A wall that could not be put up."""

    layer: _Word
    reason: Annotated[str, Field(max_length=4096)]


class _Record(_Told):
    walls: CallLayers | None = None
    fault: LayerFault | None = None


def read_walls(
    record: bytes, *, policy: Policy, around: Mapping[str, LayerState] | None = None, was_lost: bool = False
) -> CallLayers:
    """The walls of one call; raises when they, and those `around` its whole box, are not enough. Whoever cannot put one
    up says so and ends its call, so where the box `was_lost` instead, that was somebody else's word."""
    if not record:
        raise BoxLost("the process for the call died before its walls stood; the tool has not run", remedy="call again")
    told = _parse(bytes(record))
    if told.fault is not None and was_lost:
        raise ProtocolError("a box said that a wall could not be put up, and went on")
    if told.fault is not None and told.fault.layer == Layer.CGROUP:
        raise BoxLost(f"{told.fault.reason[:300]}; the tool has not run", remedy=_GROUP_LOST)
    if told.fault is not None:
        raise missing_walls([told.fault.layer], policy=policy, reason=told.fault.reason)
    if told.walls is None:
        raise ProtocolError("a box ran a call without describing its walls")
    states = _states(told.walls) | dict(around or {})
    missing = [layer for layer in _required(policy) if not states[layer].counts]
    if missing:
        raise missing_walls(missing, policy=policy, reason="not in force when measured")
    return told.walls


def egress_label(record: bytes) -> str:
    """The label of what the engine answers the call's connections on; empty where its guard handed nothing over."""
    walls = _parse(record).walls
    return (walls.egress if walls else None) or ""


def _required(policy: Policy) -> list[str]:
    return [layer.value for layer in policy.isolation.require if layer not in (Layer.CGROUP, Layer.OWN_UID)]


@lru_cache(maxsize=256)
def _parse(record: bytes) -> _Record:
    """Nearly every call of a box tells the same, so it is read once."""
    try:
        return _Record.model_validate(from_json(record, allow_inf_nan=False))
    except (ValueError, ValidationError, RecursionError) as error:
        raise ProtocolError(f"a box described its walls in no known way: {str(error)[:200]}") from None


def _states(walls: CallLayers) -> dict[str, LayerState]:
    """Every layer that the runner reports for one call."""
    held = {name: walls.capabilities.get(name, untold) for name, untold in _HELD.items()}
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
    """The kernel does not show Landlock to other processes."""
    if landlock is None:
        detail = "this kernel has none, or it did not bite when tried"
        return LayerState(in_force=False, detail=detail, measured_by=MeasuredBy.NONE)
    detail = f"ABI {landlock.abi}; a forbidden node was refused when tried"
    if landlock.is_shared:
        detail += "; set before packages ran, without rules on paths: those are the process's own"
    return LayerState(in_force=True, detail=detail, measured_by=MeasuredBy.SET_BY_ENGINE)


def build_receipt(
    protection: Protection, walls: CallLayers, *, policy: Policy, environment_key: str, limits: Mapping[str, Any]
) -> Receipt:
    """The receipt of one call; `limits` are those of this call where they are lower than the box's."""
    states = {**_states(walls), **protection.layers}
    for layer, detail in protection.details.items():
        states[layer] = states[layer].model_copy(update={"detail": f"{states[layer].detail}; {detail}"})
    is_walled = protection.isolation in _OF_THE_BOX or all(states[layer.value].counts for layer in _WALLS)
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
    found |= _of_files(walls.workplace, asked)
    found.setdefault("cpus", _shown_cpus(walls))
    for name, evidence in protection.loose.items():
        if name in found:
            found[name] = LimitState(value=found[name].value, enforced_by=EnforcedBy.NONE, note=evidence)
    return found


def _of_files(workplace: Workplace | None, asked: Mapping[str, Any]) -> dict[str, LimitState]:
    """The limits of the files that a call writes; gVisor counts their bytes, and not how many there are."""
    counted = {} if workplace is None else {"disk": workplace.bytes, "inodes": workplace.inodes}
    found = {
        name: LimitState(value=asked[name], enforced_by=EnforcedBy.NONE, note=_UNCOUNTED)
        for name in _OF_FILES
        if name in asked
    }
    for name, value in counted.items():
        if value or name not in found:
            found[name] = LimitState(value=value, enforced_by=EnforcedBy.FILESYSTEM, note=_PRIVATE)
    return found


def _shown_cpus(walls: CallLayers) -> LimitState:
    """The processors that a call sees where nothing counts the time it has on them."""
    is_all = walls.cpus >= (os.cpu_count() or 1)
    note = "all processors of this machine" if is_all else "affinity, which a tool can change"
    return LimitState(value=walls.cpus, enforced_by=EnforcedBy.ADVISORY, note=note)


def is_at_least(receipt: Receipt, minimum: Strength) -> bool:
    """Whether a receipt shows the strength a policy asks for."""
    return Strength(receipt.isolation.value) >= minimum
