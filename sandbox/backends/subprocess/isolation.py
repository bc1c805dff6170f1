"""From a policy to the isolation of a box of processes: the runner's instructions for the box and for every call in it.

There are two rings. The *box* keeps the runner, and the packages that are imported ahead, away from the host: by its
own namespaces, root filesystem and user, without privileges, under a system-call filter. Each *call* is isolated again
from the runner and from all other calls: by namespaces below the box's, a private tmpfs, Landlock, a stricter filter
and limits.

`identity.py` decides first which user of the host a box runs as: a user of its own, or the engine's. In the second case
a user namespace comes before all other layers.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Sequence

from pydantic import JsonValue

from sandbox.backends.base import BoxPlan
from sandbox.backends.isolation import (
    OWN_BYTES,
    OWN_INODES,
    TOOL_USER,
    WORKPLACE,
    conditions,
    max_socket_bytes,
    namespaces,
    process_limits,
    system_call_filter,
    watch_plan,
)
from sandbox.backends.seccomp_profiles import Sockets
from sandbox.backends.subprocess.identity import User, user_inside
from sandbox.backends.subprocess.rootfs import RootFilesystem
from sandbox.egress import PORT
from sandbox.errors import BackendUnavailable
from sandbox.policy import Layer, NetworkMode


def isolate_box(
    plan: BoxPlan,
    rootfs: RootFilesystem,
    *,
    caller: User,
    user: User,
    cgroup_fds: Sequence[str],
    restart: Sequence[str],
) -> dict[str, JsonValue]:
    """Return the outer ring, for a box that runs as `user`; `restart` is the command that starts its runner again."""
    inside = user_inside(user, is_plain=plan.is_plain)
    kinds = [kind for kind in namespaces(plan.policy) if kind != "user" or user == caller]
    return {
        **rootfs.plan(),
        "namespaces": [] if plan.is_plain else [*kinds],
        "identity": [*caller],
        "user": [*inside],
        "own_place": {"path": WORKPLACE, "size": OWN_BYTES, "inodes": OWN_INODES, "owner": [*inside]},
        "filter": system_call_filter("runner", Sockets.INTERNET),
        "doors": list(cgroup_fds),
        "again": list(restart) if restart and not plan.is_plain else None,
    }


def isolate_call(plan: BoxPlan, rootfs: RootFilesystem, *, user: User, is_metered: bool) -> dict[str, JsonValue]:
    """Return the inner ring. Without a network namespace, a call may make local sockets only."""
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
        "landlock": _landlock(plan, rootfs, reaches_network=reaches_network),
        "filter": system_call_filter(
            "tool",
            Sockets.UNIX if plan.is_plain and not reaches_network else Sockets.INTERNET,
            conditions=conditions(policy, counts_memory=is_metered),
        ),
        "limits": process_limits(policy, is_metered=is_metered),
        "cpus": [*choose_cpus(limits.cpus)],
        "watch": None if is_metered else watch_plan(policy, has_own_network=has_own_network),
        "network_settings": {} if is_metered or not has_own_network else _small_buffers(),
    }


def egress_plan(descriptor: int | None) -> dict[str, JsonValue]:
    """Return the addition to the inner ring for calls with egress.

    Through this descriptor of the runner, guards hand over the listeners whose connections the engine answers.
    """
    return {"egress": None if descriptor is None else {"descriptor": descriptor, "port": PORT}}


def choose_cpus(count: int) -> Sequence[int]:
    """Return the processors that a box may use, spread over the boxes; empty if the limit leaves all of them."""
    allowed = sorted(os.sched_getaffinity(0))
    if count >= len(allowed):
        return []
    return [*sorted(secrets.SystemRandom().sample(allowed, count))]


def _temporary_folder() -> str:
    """Return the parent folder for calls that have no mounts of their own."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise BackendUnavailable(
            f"a call without namespaces needs a folder of this host, and no folder is writable: {error.strerror}",
            remedy="name a writable folder in TMPDIR, and check `ulimit -f`",
        ) from None


def _landlock(plan: BoxPlan, rootfs: RootFilesystem, *, reaches_network: bool) -> dict[str, JsonValue]:
    if not plan.is_plain:
        writable = [shown.target for shown in plan.places() if shown.is_writable]
        return {"execute": ["/"], "write": [WORKPLACE, "/dev", "/proc", *writable], "network": True}
    # Without namespaces the filesystem is the host's, so only the parts are readable that a box would show. The guard
    # adds the call's own folder after making it.
    shown = sorted({source for source, _, _ in rootfs.binds})
    return {"execute": [*shown, "/proc"], "write": ["/dev"], "network": reaches_network}


def _small_buffers() -> dict[str, JsonValue]:
    # The kernel would enlarge TCP buffers by itself. Both buffers of a socket together must stay below the size that
    # the runner's watch counts for a socket.
    most = max_socket_bytes() // 2
    sizes = f"4096 {min(16384, most)} {most}"
    return {f"/proc/sys/net/ipv4/{name}": sizes for name in ("tcp_rmem", "tcp_wmem")}
