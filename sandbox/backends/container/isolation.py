"""What the runner in a container is told to put up.

The box's walls stand already when it starts, so it only gives up what it still has. A container for many calls has each
of them walled again, in namespaces of its own with a private tmpfs. Two things differ there from a box of processes:

- `/proc` cannot be mounted anew, because the container's has masked places. The numbers of the container's other
  processes are in it; being another user namespace's, they can be neither traced nor read, and they have no numbers
  that it could signal. What everybody may read of a process (its name, its times) is covered for the runner; and all of
  the container's init, which has the tool's user to the kernel and is no program of ours that could close itself off: a
  tool could see to it that it dies first when memory runs out in some later call.
- Places the container shares (`/tmp`, `/dev/shm`, message queues) are covered by the call's own.

In a container for one call nobody may make namespaces: it is the wall, and its workplace the call's.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import BoxPlan
from sandbox.backends.container.container_config import (
    WORKPLACE,
    are_counted_inside,
    is_machine,
    most_processes,
    stands_alone,
)
from sandbox.backends.seccomp_profiles import Sockets
from sandbox.backends.subprocess.isolation import (
    conditions,
    import_plan,
    process_limits,
    system_call_filter,
    template_plan,
    watch,
)
from sandbox.egress import PORT
from sandbox.policy import Layer, NetworkMode, Policy

NAMESPACES: Final = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
TOOL_USER: Final = (1000, 1000)
_FROM_OUTSIDE: Final = (Layer.CGROUP, Layer.OWN_UID)
_NAMESPACE_LAYERS: Final = frozenset(Layer(f"{kind}_namespace") for kind in NAMESPACES)
_INIT: Final = "/proc/1"
_RUNNER: Final = "/proc/{runner}"
_DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))


@dataclass(frozen=True, slots=True)
class Host:
    """What containers run on."""

    machine: str
    cpus: int
    runtime: str
    kernel: str = ""
    counts_memory: bool = True
    """Whether the runtime's limit of memory held when it was tried."""


def walls(
    plan: BoxPlan, *, user: int, is_metered: bool, host: Host, has_lines: bool = False, egress: str | None = None
) -> dict[str, JsonValue]:
    """The runner's part of its first message. `egress`: the path of the socket by which guards hand over what the
    engine answers their calls' connections on."""
    prefix = plan.prefix
    way: dict[str, JsonValue] = {} if egress is None else {"egress": {"path": egress, "port": PORT}}
    return {
        "box": {"stands": True, "filter": system_call_filter("runner", Sockets.INTERNET, host.machine)},
        "call": _call(plan, user=user, is_metered=is_metered, host=host) | way,
        "slots": is_metered,
        "installed": None if prefix is None else [prefix, f"{prefix}/{plan.interpreter.site}"],
        "template": None
        if stands_alone(plan.policy, host.runtime)
        else template_plan(plan, counts_memory=host.counts_memory, machine=host.machine),
        **import_plan(plan),
        "lines": has_lines,
    }


def _call(plan: BoxPlan, *, user: int, is_metered: bool, host: Host) -> dict[str, JsonValue]:
    policy, is_alone = plan.policy, stands_alone(plan.policy, host.runtime)
    limits = policy.limits
    required = [layer for layer in policy.isolation.require if layer not in _FROM_OUTSIDE]
    if is_alone:
        required = [layer for layer in required if layer not in _NAMESPACE_LAYERS]
    return {
        "namespaces": [] if is_alone else _namespaces(policy),
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
        "limits": _limits(policy, is_metered=is_metered, host=host),
        "cpus": [*_choose_cpus(policy.limits.cpus, of=host.cpus)],
        "watch": None if is_metered else watch(policy),
    }


def _namespaces(policy: Policy) -> list[JsonValue]:
    return [kind for kind in NAMESPACES if kind != "network" or policy.network.mode is not NetworkMode.HOST]


def _limits(policy: Policy, *, is_metered: bool, host: Host) -> dict[str, JsonValue]:
    """Per process; `processes` is counted for a user and a user namespace. A call that has one of its own meets this
    limit, where the kernel counts so. In a container for one call the user is also init's and the runner's, so the
    group's limit is met first. gVisor's own group cannot count the processes in it, so there this is the limit that is
    met; and its clock runs ahead of what its processes are given on a busy machine, so processor time is left to the
    engine, which counts outside."""
    is_inside = are_counted_inside(policy, runtime=host.runtime, kernel=host.kernel)
    counts = is_metered and not is_machine(host.runtime)
    limits = process_limits(policy, is_metered=counts and not is_inside)
    if is_metered and is_machine(host.runtime):
        del limits["cpu"]
    if stands_alone(policy, host.runtime):
        limits["processes"] = most_processes(policy) * (2 if counts else 1)
    return limits


def _choose_cpus(count: int, *, of: int) -> Sequence[int]:
    """The processors a call sees: any, when the limit leaves all; otherwise some, spread over the containers."""
    return [] if count >= of else sorted(secrets.SystemRandom().sample(range(of), count))
