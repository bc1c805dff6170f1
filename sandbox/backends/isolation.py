"""The parts of a runner's instructions that boxes of processes and containers share.

Every call is isolated from the runner and from all other calls: by namespaces, a private tmpfs, Landlock, a system-call
filter and limits per process. The functions here turn a policy into those parts of the runner's first message. Each
backend adds the parts that depend on its kind of box.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import BoxPlan
from sandbox.backends.seccomp import ARCHITECTURES, compile_profile
from sandbox.backends.seccomp_profiles import Condition, Sockets, load_profile
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.policy import Layer, NetworkMode, Policy

NAMESPACES: Final = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
WORKPLACE: Final = "/work"
TOOL_USER: Final = (1000, 1000)
OWN_BYTES, OWN_INODES = 16 << 20, 1024
"""The size of a box's own tmpfs, when each call has another one."""
_STRICTER: Final = {
    Condition.SHOWN_FOLDERS: "no unix sockets but pairs, because the policy shows folders of the host",
    Condition.UNCOUNTED_MEMORY: "no memfd, no shared memory without a file, because no control group counts them",
}
_CORE_SETTINGS: Final = Path("/proc/sys/net/core")
_USUAL_SOCKET_BYTES: Final = 212_992
_STACK_BYTES: Final = 8 << 20
_WATCH_INTERVAL_S: Final = 0.05
_GUARD_PROCESSES: Final = 1
_MAX_IMPORT_S: Final = 50.0
"""Less than the time that the engine gives a box to open."""
# A call must meet the limit of its control group first, because the group counts its refusals and an rlimit does not.
_MARGIN_OVER_GROUP: Final = 2


def namespaces(policy: Policy) -> list[str]:
    """Return the kinds of namespaces that a call under this policy gets."""
    shared = {"network"} if policy.network.mode is NetworkMode.HOST else set()
    return [kind for kind in NAMESPACES if kind not in shared]


def template_plan(
    plan: BoxPlan, *, counts_memory: bool, cgroup_fds: Collection[str] = (), machine: str = os.uname().machine
) -> JsonValue:
    """Return the instructions for the process that imports packages ahead of calls; None without such a process.

    The import may take as long, and as much processor time, as a call.
    """
    if not plan.has_template:
        return None
    limits = plan.policy.limits
    return {
        "filter": system_call_filter(
            "template", Sockets.INTERNET, machine, conditions(plan.policy, counts_memory=counts_memory)
        ),
        "has_own_rules": counts_memory,  # Landlock rules; without a group, the filter is stricter instead
        "doors": list(cgroup_fds),
        "wall_s": min(limits.wall, _MAX_IMPORT_S),
        "cpu_s": limits.cpu,
    }


def import_plan(plan: BoxPlan) -> dict[str, JsonValue]:
    """Return the instructions for a box without a template: may a process that waits for a call import packages?"""
    may_import = plan.imports_ahead and plan.policy.environment.preload
    return {"imports_ahead": may_import, "import_s": min(plan.policy.limits.wall, _MAX_IMPORT_S)}


def process_limits(policy: Policy, *, is_metered: bool) -> dict[str, JsonValue]:
    """Return the limits that the kernel enforces for each process, in addition to those of the whole tree.

    `data` turns one hopeless allocation into a MemoryError with a traceback before the memory limit kills the call, and
    leaves room for the stacks of all threads. The kernel counts `processes` per user and user namespace, so this limit
    bounds one call alone.
    """
    limits = policy.limits
    return {
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "cpu": int(limits.cpu) + 1,
        "data": limits.memory + limits.processes * _STACK_BYTES,
        "processes": (limits.processes + _GUARD_PROCESSES) * (_MARGIN_OVER_GROUP if is_metered else 1),
    }


def watch_plan(policy: Policy, *, has_own_network: bool = False) -> dict[str, JsonValue]:
    """Return the limits that the runner itself watches when no control group counts the call."""
    limits = policy.limits
    found: dict[str, JsonValue] = {
        "interval": _WATCH_INTERVAL_S,
        "memory": limits.memory,
        "processes": limits.processes + _GUARD_PROCESSES,
        "cpu": limits.cpu,
    }
    return {**found, "socket_bytes": max_socket_bytes()} if has_own_network else found


@cache
def max_socket_bytes() -> int:
    """Return the largest number of bytes in a socket whose buffers have the kernel's default size."""
    try:
        return max(int((_CORE_SETTINGS / name).read_text()) for name in ("rmem_default", "wmem_default"))
    except (OSError, ValueError):
        return _USUAL_SOCKET_BYTES


def conditions(policy: Policy, *, counts_memory: bool) -> frozenset[Condition]:
    """Return the properties of a box that make the filter of its tools stricter.

    A policy that opens the host's network opens the host's unix sockets, too.
    """
    found = set() if counts_memory else {Condition.UNCOUNTED_MEMORY}
    shows_folders = not all(os.path.isfile(path) for path in policy.filesystem.readable)
    if shows_folders and policy.network.mode is not NetworkMode.HOST:
        found.add(Condition.SHOWN_FOLDERS)
    return frozenset(found)


def describe_conditions(conditions: Collection[Condition]) -> str:
    """Return the receipt's words for a filter that is stricter than usual; empty for the usual one."""
    return "; ".join(text for condition, text in _STRICTER.items() if condition in conditions)


@cache
def system_call_filter(
    name: str, sockets: Sockets, machine: str = os.uname().machine, conditions: Collection[Condition] = frozenset()
) -> str:
    """Return the compiled system-call filter of that name, in hexadecimal."""
    if machine not in ARCHITECTURES:
        raise IsolationUnavailable(
            f"there are no system-call filters for {machine} machines",
            missing=(Layer.SECCOMP.value,),
            remedy=f"run on one of {', '.join(ARCHITECTURES)}",
        )
    program = compile_profile(load_profile(name), machine=machine, sockets=sockets, conditions=conditions)
    return program.hex()


def readable_paths(paths: Iterable[str]) -> list[str]:
    """Return the host's paths that a policy shows, each once; raise `BackendUnavailable` if a box cannot show one."""
    for path in paths:
        refuse_own_places(path, what="a readable path")
        if not os.path.exists(path):
            raise BackendUnavailable(
                f"a readable path is missing: the policy shows {path}, which is not there",
                remedy="correct filesystem.readable",
            )
    return outermost(paths)


def refuse_own_places(path: str, *, what: str) -> None:
    """Raise `BackendUnavailable` if the path lies where every box has files of its own."""
    for own in (WORKPLACE, "/tmp", "/var/tmp", "/proc", "/dev", "/etc"):
        if path == own or path.startswith(own + "/"):
            raise BackendUnavailable(
                f"{what} {path} lies under {own}, where a box has files of its own",
                remedy="move it elsewhere on this host",
            )


def outermost(paths: Iterable[str]) -> list[str]:
    """Return each path once, without paths below another one."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return kept
