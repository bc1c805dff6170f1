"""What the daemon says a container really is: the outer half of a receipt.

Asked once the container runs, and read back, not copied from what was asked for: a daemon that ignores a setting, as
rootless ones do with limits, or a runtime that is an alias of another, shows here. What the daemon cannot know, because
it only passes it on, is measured inside by the call's own process (see `calls.receipts`) and proved by canaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandbox.backends.base import Protection, engine_limits
from sandbox.backends.container.container_config import (
    RUNNER_MEMORY,
    are_counted_inside,
    is_machine,
    most_processes,
    profile_name,
    stands_alone,
)
from sandbox.backends.container.probe_cache import OF_CONTROL_GROUPS, Proof
from sandbox.backends.subprocess.isolation import conditions, describe_conditions
from sandbox.egress import NETWORK
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy
from sandbox.policy import NetworkMode, Policy, format_bytes

_ITS_OWN: Final = "the container's own"
_OWN_KERNEL: Final = "a kernel of its own: privileges inside mean nothing outside"
_NANO: Final = 1_000_000_000
_ALLOWANCE: Final = f"the container has {format_bytes(RUNNER_MEMORY)} more for what runs the call"
_NOT_SET: Final = "the daemon's configuration does not show this limit"


def protection(
    said: Mapping[str, Any], *, policy: Policy, proof: Proof, is_metered: bool, kernel: str = ""
) -> Protection:
    """The receipt's outer half, from an answer to `GET /containers/<id>/json`."""
    host, runtime = said["HostConfig"], str(said["HostConfig"].get("Runtime") or "runc")
    return Protection(
        backend="container",
        isolation=Isolation.MACHINE if is_machine(runtime) else Isolation.CONTAINER,
        layers=_layers(said, runtime=runtime, policy=policy, proof=proof),
        limits=_limits(host, policy=policy, runtime=runtime, is_metered=is_metered, kernel=kernel),
        network=_network(host, policy),
        user=str(said["Config"].get("User", "")).partition(":")[0],
        runtime=runtime,
        notes=_notes(proof),
        loose={name: proof.findings[name].evidence for name in proof.unenforced},
        details=_details(host, runtime=runtime, policy=policy, proof=proof),
    )


def _notes(proof: Proof) -> tuple[str, ...]:
    """What whoever looks at an outcome should see without looking for it."""
    loose = [name for name in OF_CONTROL_GROUPS if name in proof.unenforced]
    return (f"runtime {proof.runtime} was seen not to limit: {', '.join(loose)}",) if loose else ()


def _network(host: Mapping[str, Any], policy: Policy) -> str:
    """The container's own; where that is none, a policy may still have the engine answer its calls."""
    found = str(host.get("NetworkMode"))
    return NETWORK if (found, policy.network.mode) == ("none", NetworkMode.PUBLIC) else found


def _layers(said: Mapping[str, Any], *, runtime: str, policy: Policy, proof: Proof) -> dict[str, LayerState]:
    """What stands around the whole container. Where every call is walled in again, its own measurement says more."""
    host, user = said["HostConfig"], str(said["Config"].get("User", ""))
    found = {
        "cgroup": _control_groups(host, proof),
        "own_uid": _configured(
            f"uid {user.partition(':')[0]} is this container's alone", in_force=_is_unprivileged(user)
        ),
    }
    if not stands_alone(policy, runtime):
        return found
    found |= _namespaces(host)
    return found | ({"user_namespace": _configured(_OWN_KERNEL, in_force=True)} if is_machine(runtime) else {})


def _configured(detail: str, *, in_force: bool) -> LayerState:
    return LayerState(in_force=in_force, detail=detail, measured_by=MeasuredBy.DAEMON_CONFIG)


def _control_groups(host: Mapping[str, Any], proof: Proof) -> LayerState:
    """Set, as the daemon says, and of the kind that was seen to hold."""
    memory, processes = host.get("Memory") or 0, host.get("PidsLimit") or 0
    seen = proof.control_groups
    detail = f"memory {format_bytes(memory)}, {processes} processes; {seen.detail}"
    return _configured(detail, in_force=memory > 0 and processes > 0 and seen.in_force)


def _namespaces(host: Mapping[str, Any]) -> dict[str, LayerState]:
    own = {
        "mount_namespace": bool(host.get("ReadonlyRootfs")),
        "pid_namespace": (host.get("PidMode") or "private") == "private",
        "network_namespace": host.get("NetworkMode") == "none",
        "ipc_namespace": host.get("IpcMode") in ("private", "none", "shareable"),
        "uts_namespace": (host.get("UTSMode") or "private") == "private",
        "cgroup_namespace": host.get("CgroupnsMode") == "private",
    }
    return {
        name: _configured(_ITS_OWN if is_own else "shared with the host", in_force=is_own)
        for name, is_own in own.items()
    }


def _is_unprivileged(user: str) -> bool:
    return user.partition(":")[0].isdigit() and int(user.partition(":")[0]) > 0


def _limits(
    host: Mapping[str, Any], *, policy: Policy, runtime: str, is_metered: bool, kernel: str
) -> dict[str, LimitState]:
    limits = policy.limits
    memory, nano = max((host.get("Memory") or 0) - RUNNER_MEMORY, 0), host.get("NanoCpus") or 0
    counted = {
        "cpu": LimitState(value=limits.cpu, enforced_by=EnforcedBy.CGROUP if is_metered else EnforcedBy.WATCHER),
        "memory": _kept(memory, EnforcedBy.CGROUP, note=_ALLOWANCE, asked=limits.memory),
        "processes": _processes(host, policy=policy, runtime=runtime, kernel=kernel),
    }
    if nano:
        counted["cpus"] = LimitState(value=nano / _NANO, enforced_by=EnforcedBy.CGROUP, note="quota")
    return engine_limits(limits) | counted


def _processes(host: Mapping[str, Any], *, policy: Policy, runtime: str, kernel: str) -> LimitState:
    """A group counts what the host knows of, which under a kernel of its own are that kernel's tasks."""
    if are_counted_inside(policy, runtime=runtime, kernel=kernel):
        return LimitState(value=policy.limits.processes, enforced_by=EnforcedBy.RLIMIT)
    ulimits = {each.get("Name"): each.get("Soft") for each in host.get("Ulimits") or ()}
    own_kernel = is_machine(runtime)
    found = ulimits.get("nproc") if own_kernel else host.get("PidsLimit")
    asked = policy.limits.processes
    counted = max((found or 0) - most_processes(policy) + asked, 0)
    if own_kernel:
        return _kept(counted, EnforcedBy.RUNTIME, note="the container's own kernel, per user", asked=asked)
    return _kept(counted, EnforcedBy.CGROUP, note="", asked=asked)


def _kept(found: int, keeper: EnforcedBy, *, note: str, asked: int) -> LimitState:
    """A limit as the daemon's configuration shows it, or what the policy asks for with nothing that enforces it."""
    if found:
        return LimitState(value=found, enforced_by=keeper, note=note)
    return LimitState(value=asked, enforced_by=EnforcedBy.NONE, note=_NOT_SET)


def _details(host: Mapping[str, Any], *, runtime: str, policy: Policy, proof: Proof) -> dict[str, str]:
    """What the daemon put up of what is measured inside."""
    profile = profile_name(policy, runtime)
    is_confined = any(option.startswith("seccomp=") for option in host.get("SecurityOpt") or ())
    seccomp = f"the container's own is profile '{profile}'" if is_confined else "the container has none of its own"
    stricter = describe_conditions(conditions(policy, counts_memory="memory" not in proof.unenforced))
    filters = "gVisor answers system calls itself" if is_machine(runtime) else seccomp
    dropped = ", ".join(host.get("CapDrop") or ()) or "none"
    return {
        "seccomp": f"{filters}; {stricter}" if stricter else filters,
        "capabilities": f"dropped by the daemon: {dropped}",
    }
