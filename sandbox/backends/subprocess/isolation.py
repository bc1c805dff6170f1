"""From a policy to walls: what the runner is told to put up, for the box and for every call in it.

Two rings. The *box* keeps the runner, and the packages that are imported ahead, away from the host: its own namespaces,
the tree of files, a user of its own, no privileges, a system-call filter. Each *call* is walled again from the runner
and from all other calls: namespaces of its own below the box's, a private tmpfs, Landlock, a stricter filter, limits.

Whose the box is, on the host, is settled before (see caller.py): a user of its own, or the engine's. In the second case
a user namespace is the first of its walls.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import BoxPlan
from sandbox.backends.seccomp_profiles import Condition, Sockets, load_profile
from sandbox.backends.subprocess.identity import User, user_inside
from sandbox.backends.subprocess.rootfs import TOOL_USER, WORKPLACE, Tree
from sandbox.backends.subprocess.seccomp import ARCHITECTURES, compile_profile
from sandbox.egress import PORT
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.policy import Layer, NetworkMode, Policy

NAMESPACES: Final = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
_STRICTER: Final = {
    Condition.SHOWN_FOLDERS: "no unix sockets but pairs, because the policy shows folders of the host",
    Condition.UNCOUNTED_MEMORY: "no memfd, no shared memory without a file, because no control group counts them",
}
OWN_BYTES, OWN_INODES = 16 << 20, 1024
"""What a box itself may write where its calls have places of their own."""
_CORE_SETTINGS: Final = Path("/proc/sys/net/core")
_USUAL_SOCKET_BYTES: Final = 212_992
_STACK_BYTES: Final = 8 << 20
_WATCH_INTERVAL_S: Final = 0.05
_GUARD_PROCESSES: Final = 1
_MAX_IMPORT_S: Final = 50.0
"""Less than the engine waits for a box to open."""
_BEHIND_THE_GROUP: Final = 2
"""The control group's limit must be the first that is met, because it counts what it refuses."""


def namespaces(policy: Policy) -> list[str]:
    """The kinds of namespaces the policy leads to."""
    shared = {"network"} if policy.network.mode is NetworkMode.HOST else set()
    return [kind for kind in NAMESPACES if kind not in shared]


def box_walls(
    plan: BoxPlan, tree: Tree, *, caller: User, user: User, doors: Sequence[str], again: Sequence[str]
) -> dict[str, JsonValue]:
    """The outer ring, for a box that is a user's."""
    inside = user_inside(user, is_plain=plan.is_plain)
    kinds = [kind for kind in namespaces(plan.policy) if kind != "user" or user == caller]
    return {
        **tree.plan(),
        "namespaces": [] if plan.is_plain else [*kinds],
        "identity": [*caller],
        "user": [*inside],
        "own_place": {"path": WORKPLACE, "size": OWN_BYTES, "inodes": OWN_INODES, "owner": [*inside]},
        "filter": system_call_filter("runner", Sockets.INTERNET),
        "doors": list(doors),
        "again": list(again) if again and not plan.is_plain else None,
    }


def call_walls(plan: BoxPlan, tree: Tree, *, user: User, is_metered: bool) -> dict[str, JsonValue]:
    """The inner ring. Where there is no network namespace to be alone in, no socket can be made but local ones."""
    policy, limits = plan.policy, plan.policy.limits
    reaches_network = policy.network.mode is NetworkMode.HOST
    has_own_network = not plan.is_plain and not reaches_network
    return {
        "namespaces": [] if plan.is_plain else [*namespaces(policy)],
        "required": [layer.value for layer in policy.isolation.require if layer is not Layer.CGROUP],
        "user": list(TOOL_USER),
        "outside": [*user_inside(user, is_plain=plan.is_plain)],
        "workplace": None if plan.is_plain else {"path": WORKPLACE, "size": limits.disk, "inodes": limits.inodes},
        "folder": _temporary_folder() if plan.is_plain else None,
        "landlock": _landlock(plan, tree, reaches_network=reaches_network),
        "filter": system_call_filter(
            "tool",
            Sockets.UNIX if plan.is_plain and not reaches_network else Sockets.INTERNET,
            conditions=conditions(policy, counts_memory=is_metered),
        ),
        "limits": process_limits(policy, is_metered=is_metered),
        "cpus": [*choose_cpus(limits.cpus)],
        "watch": None if is_metered else watch(policy, has_own_network=has_own_network),
        "network_settings": {} if is_metered or not has_own_network else _small_buffers(),
    }


def template_plan(
    plan: BoxPlan, *, counts_memory: bool, doors: Sequence[str] = (), machine: str = os.uname().machine
) -> JsonValue:
    """What the runner needs to know about the process that imports packages ahead of calls; None without one.

    It may take as long, and as much processor time, as a call.
    """
    if not plan.has_template:
        return None
    limits = plan.policy.limits
    return {
        "filter": system_call_filter(
            "template", Sockets.INTERNET, machine, conditions(plan.policy, counts_memory=counts_memory)
        ),
        "has_own_rules": counts_memory,  # of Landlock; elsewhere the filter refuses more
        "doors": list(doors),
        "wall_s": min(limits.wall, _MAX_IMPORT_S),
        "cpu_s": limits.cpu,
    }


def import_plan(plan: BoxPlan) -> dict[str, JsonValue]:
    """What the runner needs to know where no template imports packages: whether a process that waits for a call may,
    and for how long."""
    may_import = plan.imports_ahead and plan.policy.environment.preload
    return {"imports_ahead": may_import, "import_s": min(plan.policy.limits.wall, _MAX_IMPORT_S)}


def way_out(descriptor: int | None) -> dict[str, JsonValue]:
    """What is added to the inner ring once the runner has it: the descriptor by which guards hand over what the engine
    answers their calls' connections on."""
    return {"egress": None if descriptor is None else {"descriptor": descriptor, "port": PORT}}


def _temporary_folder() -> str:
    """Where calls that have no mounts of their own get a folder each."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise BackendUnavailable(
            f"a call without walls needs a folder of this host, and there is none to make it in: {error.strerror}",
            remedy="name a folder that can be written to in TMPDIR, and see `ulimit -f`",
        ) from None


def _landlock(plan: BoxPlan, tree: Tree, *, reaches_network: bool) -> dict[str, JsonValue]:
    """In a box, all of its tree can be read. In the plain form the tree is the host's, so only what a box would show;
    there the call's own folder is added by the guard that makes it."""
    if not plan.is_plain:
        places = [shown.target for shown in plan.places() if shown.is_writable]
        return {"execute": ["/"], "write": [WORKPLACE, "/dev", "/proc", *places], "network": True}
    shown = sorted({source for source, _, _ in tree.binds})
    return {"execute": [*shown, "/proc"], "write": ["/dev"], "network": reaches_network}


def process_limits(policy: Policy, *, is_metered: bool) -> dict[str, JsonValue]:
    """What the kernel limits per process, beside what is limited for the whole tree.

    `data` is a first net under the memory limit that turns one hopeless allocation into a MemoryError with a traceback;
    it leaves room for the stacks of as many threads as may run. `processes` is counted per user *and user namespace*,
    so it bounds this call alone.
    """
    limits = policy.limits
    return {
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "cpu": int(limits.cpu) + 1,
        "data": limits.memory + limits.processes * _STACK_BYTES,
        "processes": (limits.processes + _GUARD_PROCESSES) * (_BEHIND_THE_GROUP if is_metered else 1),
    }


def choose_cpus(count: int) -> Sequence[int]:
    """The processors a box may use: any, when the limit leaves all; otherwise some, spread over the boxes."""
    allowed = sorted(os.sched_getaffinity(0))
    if count >= len(allowed):
        return []
    return [*sorted(secrets.SystemRandom().sample(allowed, count))]


def watch(policy: Policy, *, has_own_network: bool = False) -> dict[str, JsonValue]:
    """What the runner looks after itself, where nothing outside of the box counts it."""
    limits = policy.limits
    found: dict[str, JsonValue] = {
        "interval": _WATCH_INTERVAL_S,
        "memory": limits.memory,
        "processes": limits.processes + _GUARD_PROCESSES,
        "cpu": limits.cpu,
    }
    return {**found, "socket_bytes": _socket_bytes()} if has_own_network else found


def _small_buffers() -> dict[str, JsonValue]:
    """Keep the kernel from enlarging TCP buffers by itself: a socket has two, and both together stay below the most
    that the watch counts for a socket."""
    most = _socket_bytes() // 2
    sizes = f"4096 {min(16384, most)} {most}"
    return {f"/proc/sys/net/ipv4/{name}": sizes for name in ("tcp_rmem", "tcp_wmem")}


@cache
def _socket_bytes() -> int:
    """Return the most that a socket holds whose buffers have the kernel's default size."""
    try:
        return max(int((_CORE_SETTINGS / name).read_text()) for name in ("rmem_default", "wmem_default"))
    except (OSError, ValueError):
        return _USUAL_SOCKET_BYTES


def conditions(policy: Policy, *, counts_memory: bool) -> frozenset[Condition]:
    """Return for which of a box's properties its tools have a stricter filter.

    A policy that opens the host's network opens the host's unix sockets, too.
    """
    found = set() if counts_memory else {Condition.UNCOUNTED_MEMORY}
    shows_folders = not all(os.path.isfile(path) for path in policy.filesystem.readable)
    if shows_folders and policy.network.mode is not NetworkMode.HOST:
        found.add(Condition.SHOWN_FOLDERS)
    return frozenset(found)


def describe_conditions(conditions: Collection[Condition]) -> str:
    """Return what a receipt says about a filter that is stricter than usual; empty for the usual one."""
    return "; ".join(text for condition, text in _STRICTER.items() if condition in conditions)


@cache
def system_call_filter(
    name: str, sockets: Sockets, machine: str = os.uname().machine, conditions: Collection[Condition] = frozenset()
) -> str:
    """The system-call filter of that name as the bytes of its program, in hexadecimal."""
    if machine not in ARCHITECTURES:
        raise IsolationUnavailable(
            f"there are no system-call filters for {machine} machines",
            missing=(Layer.SECCOMP.value,),
            remedy=f"run on one of {', '.join(ARCHITECTURES)}",
        )
    program = compile_profile(load_profile(name), machine=machine, sockets=sockets, conditions=conditions)
    return program.hex()
