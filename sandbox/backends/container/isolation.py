"""The isolation of a container's calls: the runner's instructions, and the outer half of the receipt.

**Instructions** (`isolate`). The daemon has set up the box's isolation when the runner starts, so the runner only gives
up its remaining rights. A container for many calls isolates each of them again, in namespaces of its own with a private
tmpfs. Two things differ there from a box of processes:

- `/proc` cannot be mounted again, because the container's has masked places. So a call sees the numbers of the
  container's other processes. The user namespace keeps the call from tracing, reading and signalling them. The runner's
  public files, such as its name and times, are covered, and so are all files of the container's init, which has the
  tool's user to the kernel and cannot close itself off: a tool could make init die first when memory runs out in a
  later call.
- Places that the container shares (`/tmp`, `/dev/shm`, message queues) are covered by the call's own.

In a container for one call no process may make namespaces: the container is the isolation, and its workplace the
call's.

**Receipt** (`read_protection`). The engine reads the daemon's description of the running container, and copies nothing
from the request: the description shows a daemon that ignores a setting, as rootless ones do with limits, and a runtime
that is an alias of another. Settings that the daemon only passes on are measured inside by the call's own process (see
`receipts`) and by probes.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from sandbox.backends.base import BoxPlan, Protection, engine_limits
from sandbox.backends.container.container_config import (
    RUNNER_MEMORY,
    are_counted_inside,
    is_machine,
    is_whole_isolation,
    max_processes,
    profile_name,
)
from sandbox.backends.container.probe_cache import OF_CONTROL_GROUPS, RuntimeLimits
from sandbox.backends.isolation import (
    NAMESPACES,
    TOOL_USER,
    WORKPLACE,
    conditions,
    describe_conditions,
    import_plan,
    namespaces,
    process_limits,
    system_call_filter,
    template_plan,
    watch_plan,
)
from sandbox.backends.seccomp_profiles import Sockets
from sandbox.egress import NETWORK, PORT
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy
from sandbox.policy import Layer, NetworkMode, Policy, format_bytes

_FROM_OUTSIDE: Final = (Layer.CGROUP, Layer.OWN_UID)
_NAMESPACE_LAYERS: Final = frozenset(Layer(f"{kind}_namespace") for kind in NAMESPACES)
_INIT: Final = "/proc/1"
_RUNNER: Final = "/proc/{runner}"
_DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_ITS_OWN: Final = "the container's own"
_OWN_KERNEL: Final = "a kernel of its own: privileges inside mean nothing outside"
_NANO: Final = 1_000_000_000
_ALLOWANCE: Final = f"the container has {format_bytes(RUNNER_MEMORY)} more for the processes that run the call"
_NOT_SET: Final = "the daemon's configuration does not show this limit"


@dataclass(frozen=True, slots=True)
class ContainerHost:
    """The machine and the runtime of a container."""

    machine: str
    cpus: int
    runtime: str
    kernel: str = ""
    counts_memory: bool = True
    """Whether the runtime's limit of memory held when it was probed."""


def isolate(
    plan: BoxPlan,
    *,
    user: int,
    is_metered: bool,
    host: ContainerHost,
    has_lines: bool = False,
    egress: str | None = None,
) -> dict[str, JsonValue]:
    """Return the isolation in the runner's first message.

    `egress` is the path of the socket by which guards hand over the listeners whose connections the engine answers.
    """
    prefix = plan.prefix
    way_out: dict[str, JsonValue] = {} if egress is None else {"egress": {"path": egress, "port": PORT}}
    is_alone = is_whole_isolation(plan.policy, host.runtime)
    template = template_plan(plan, counts_memory=host.counts_memory, machine=host.machine)
    return {
        "box": {"stands": True, "filter": system_call_filter("runner", Sockets.INTERNET, host.machine)},
        "call": _call(plan, user=user, is_metered=is_metered, host=host) | way_out,
        "slots": is_metered,
        "installed": None if prefix is None else [prefix, f"{prefix}/{plan.interpreter.site}"],
        "template": None if is_alone else template,
        **import_plan(plan),
        "lines": has_lines,
    }


def _call(plan: BoxPlan, *, user: int, is_metered: bool, host: ContainerHost) -> dict[str, JsonValue]:
    policy, is_alone = plan.policy, is_whole_isolation(plan.policy, host.runtime)
    limits = policy.limits
    required = [layer for layer in policy.isolation.require if layer not in _FROM_OUTSIDE]
    if is_alone:
        required = [layer for layer in required if layer not in _NAMESPACE_LAYERS]
    return {
        "namespaces": [] if is_alone else [*namespaces(policy)],
        "required": [layer.value for layer in required],
        "user": list(TOOL_USER),
        "outside": [user, user],
        "workplace": {
            "path": WORKPLACE,
            "size": limits.disk,
            "inodes": limits.inodes,
            "seen_at": {".tmp": "/tmp", ".shm": "/dev/shm"},
            "covered": ["/dev/mqueue", _INIT, _RUNNER],
        },
        "proc": False,
        "folder": WORKPLACE,
        "landlock": {
            "execute": ["/"],
            "write": [WORKPLACE, "/tmp", "/dev/shm", "/proc", *_DEVICES],
            "network": True,
        },
        "filter": system_call_filter(
            "tool", Sockets.INTERNET, host.machine, conditions(policy, counts_memory=host.counts_memory)
        ),
        "limits": _process_limits(policy, is_metered=is_metered, host=host),
        "cpus": [*_choose_cpus(policy.limits.cpus, of=host.cpus)],
        "watch": None if is_metered else watch_plan(policy),
    }


def _process_limits(policy: Policy, *, is_metered: bool, host: ContainerHost) -> dict[str, JsonValue]:
    # The kernel counts `processes` per user and user namespace. A call with a user namespace of its own meets exactly
    # this limit, on kernels that count so. In a container for one call, the user is also init's and the runner's, so
    # the group's limit must be met first. gVisor's own group cannot count the processes in it, so this limit is the
    # only one there. gVisor's clock runs ahead of the time that a busy machine gives its processes, so the engine,
    # which measures outside, limits processor time there.
    is_inside = are_counted_inside(policy, runtime=host.runtime, kernel=host.kernel)
    counts = is_metered and not is_machine(host.runtime)
    limits = process_limits(policy, is_metered=counts and not is_inside)
    if is_metered and is_machine(host.runtime):
        del limits["cpu"]
    if is_whole_isolation(policy, host.runtime):
        limits["processes"] = max_processes(policy) * (2 if counts else 1)
    return limits


def _choose_cpus(count: int, *, of: int) -> Sequence[int]:
    """Return the processors of a call, spread over the containers; empty if the limit leaves all of them."""
    return [] if count >= of else sorted(secrets.SystemRandom().sample(range(of), count))


def read_protection(
    inspected: Mapping[str, Any], *, policy: Policy, limits: RuntimeLimits, is_metered: bool, kernel: str = ""
) -> Protection:
    """Return the receipt's outer half, from an answer to `GET /containers/<id>/json`."""
    host, runtime = inspected["HostConfig"], str(inspected["HostConfig"].get("Runtime") or "runc")
    return Protection(
        backend="container",
        isolation=Isolation.MACHINE if is_machine(runtime) else Isolation.CONTAINER,
        layers=_layers(inspected, runtime=runtime, policy=policy, limits=limits),
        limits=_limits(host, policy=policy, runtime=runtime, is_metered=is_metered, kernel=kernel),
        network=_network(host, policy),
        user=str(inspected["Config"].get("User", "")).partition(":")[0],
        runtime=runtime,
        notes=_notes(limits),
        loose={name: limits.findings[name].evidence for name in limits.unenforced},
        details=_details(host, runtime=runtime, policy=policy, limits=limits),
    )


def _notes(limits: RuntimeLimits) -> tuple[str, ...]:
    broken = [name for name in OF_CONTROL_GROUPS if name in limits.unenforced]
    return (f"runtime {limits.runtime} was seen not to limit: {', '.join(broken)}",) if broken else ()


def _network(host: Mapping[str, Any], policy: Policy) -> str:
    # A container without network may still have the engine answer its calls.
    found = str(host.get("NetworkMode"))
    return NETWORK if (found, policy.network.mode) == ("none", NetworkMode.PUBLIC) else found


def _layers(
    inspected: Mapping[str, Any], *, runtime: str, policy: Policy, limits: RuntimeLimits
) -> dict[str, LayerState]:
    """Return the layers around the whole container."""
    host, user = inspected["HostConfig"], str(inspected["Config"].get("User", ""))
    found = {
        "cgroup": _control_groups(host, limits),
        "own_uid": _configured(
            f"uid {user.partition(':')[0]} is this container's alone", in_force=_is_unprivileged(user)
        ),
    }
    # If every call is isolated again, the call's own measurement says more about namespaces.
    if not is_whole_isolation(policy, runtime):
        return found
    found |= _namespaces(host)
    return found | ({"user_namespace": _configured(_OWN_KERNEL, in_force=True)} if is_machine(runtime) else {})


def _configured(detail: str, *, in_force: bool) -> LayerState:
    return LayerState(in_force=in_force, detail=detail, measured_by=MeasuredBy.DAEMON_CONFIG)


def _control_groups(host: Mapping[str, Any], limits: RuntimeLimits) -> LayerState:
    memory, processes = host.get("Memory") or 0, host.get("PidsLimit") or 0
    seen = limits.control_groups
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
        "memory": _enforced(memory, EnforcedBy.CGROUP, note=_ALLOWANCE, asked=limits.memory),
        "processes": _processes(host, policy=policy, runtime=runtime, kernel=kernel),
    }
    if nano:
        counted["cpus"] = LimitState(value=nano / _NANO, enforced_by=EnforcedBy.CGROUP, note="quota")
    return engine_limits(limits) | counted


def _processes(host: Mapping[str, Any], *, policy: Policy, runtime: str, kernel: str) -> LimitState:
    if are_counted_inside(policy, runtime=runtime, kernel=kernel):
        return LimitState(value=policy.limits.processes, enforced_by=EnforcedBy.RLIMIT)
    # The group of a container with a kernel of its own counts that kernel's tasks, not the container's processes.
    ulimits = {each.get("Name"): each.get("Soft") for each in host.get("Ulimits") or ()}
    own_kernel = is_machine(runtime)
    found = ulimits.get("nproc") if own_kernel else host.get("PidsLimit")
    asked = policy.limits.processes
    counted = max((found or 0) - max_processes(policy) + asked, 0)
    if own_kernel:
        return _enforced(counted, EnforcedBy.RUNTIME, note="the container's own kernel, per user", asked=asked)
    return _enforced(counted, EnforcedBy.CGROUP, note="", asked=asked)


def _enforced(found: int, enforced_by: EnforcedBy, *, note: str, asked: int) -> LimitState:
    """Return a limit of the daemon's configuration; without one, the policy's limit, which nothing enforces."""
    if found:
        return LimitState(value=found, enforced_by=enforced_by, note=note)
    return LimitState(value=asked, enforced_by=EnforcedBy.NONE, note=_NOT_SET)


def _details(host: Mapping[str, Any], *, runtime: str, policy: Policy, limits: RuntimeLimits) -> dict[str, str]:
    """Return the daemon's part of the layers that a call measures inside."""
    profile = profile_name(policy, runtime)
    is_confined = any(option.startswith("seccomp=") for option in host.get("SecurityOpt") or ())
    seccomp = f"the container's own is profile '{profile}'" if is_confined else "the container has none of its own"
    stricter = describe_conditions(conditions(policy, counts_memory="memory" not in limits.unenforced))
    filters = "gVisor answers system calls itself" if is_machine(runtime) else seccomp
    dropped = ", ".join(host.get("CapDrop") or ()) or "none"
    return {
        "seccomp": f"{filters}; {stricter}" if stricter else filters,
        "capabilities": f"dropped by the daemon: {dropped}",
    }
