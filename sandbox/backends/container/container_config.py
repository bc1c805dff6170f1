"""From a policy to a container: the document of the request that creates it.

Every container is isolated in the same way, whatever its policy asks for: a numeric user of its own, no capabilities,
no new privileges, our own system-call filter, a read-only root, limits on the whole tree, nothing of the host except
for read-only mounts, no log that could fill a disk. The policy decides sizes, and whether a developer's own code has
the host's network; all other containers have none.

A single call at a time runs in a container, so its control group is the call's. The kernel counts and limits there the
call and the runner, which gets an allowance in addition.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import ENVIRONMENT, Shown
from sandbox.backends.container.seccomp import ProfileName
from sandbox.backends.isolation import OWN_BYTES, OWN_INODES, WORKPLACE, readable_paths
from sandbox.egress import SHOWN_AT
from sandbox.errors import IsolationUnavailable
from sandbox.policy import Layer, Limits, NetworkMode, Policy, ReuseMode
from sandbox.policy.paths import is_within

_TEMPORARY: Final = "/tmp"
_OF_THE_IMAGE: Final = ("/bin", "/lib", "/lib64", "/sbin", "/usr/bin", "/usr/lib", ENVIRONMENT, SHOWN_AT)
HOSTNAME: Final = "sandbox"
AHEAD: Final = 1
"""The children that wait for a call: one, because a container serves one call at a time."""
RUNNER_MEMORY: Final = 32 << 20
_INIT_AND_ZYGOTE: Final = 2
_PER_CHILD: Final = 2  # its guard, and its tool's first process
RESTING_PROCESSES: Final = _INIT_AND_ZYGOTE + 1
"""The processes of ours while a call runs: init, zygote and the call's guard."""
_OTHERS: Final = 8
"""Short-lived processes of ours in a container for many calls, such as the one that forks a child ahead."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_COUNTS_BY_NAMESPACE: Final = (5, 14)
_TASKS_OF_A_MACHINE, _TASKS_PER_PROCESS = 256, 16
"""The host's tasks that a container with a kernel of its own takes, and those for each process in it: gVisor takes
seven with its ptrace platform. gVisor ends with all processes in it if the host refuses one."""
_NO_NAMES: Final[dict[str, JsonValue]] = {"Dns": ["127.0.0.1"], "DnsSearch": ["."]}
"""Without this, Docker shows the host's name servers and search domains to every container."""
_SHARED_MEMORY: Final = 16 << 20
_SHARED_MEMORY_AT: Final = "/dev/shm"
_SHARED_PART: Final = 8
_MIN_SHARED_INODES: Final = 2  # the folder itself takes one
_PAGE: Final = 4096
_GVISOR: Final = "runsc"
_OPEN_FILES_OF_A_RUNNER: Final = 1024
_FIRST_FREE_UID, _LAST_FREE_UID = 0x70000000, 0x7FFFFFF0
_FIRST_MAPPED_UID, _LAST_MAPPED_UID = 20000, 60000
# A single byte keeps the kernel from writing a core; with 0 the kernel would pipe the core to a program of the host.
_NO_CORE: Final = 1
_NANO: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a container that its policy does not decide."""

    image: str
    command: Sequence[str]
    user: int
    labels: Mapping[str, str]
    seccomp: str
    runtime: str | None = None
    mounts: tuple[Shown, ...] = ()
    host_cpus: int = 1
    is_podman: bool = False
    is_near: bool = False
    """Whether its processes are among those of this machine."""


def draw_user(*, is_mapped: bool) -> int:
    """Return a user id that no other box has.

    The ids are high ones that no distribution assigns, or lower ones if the daemon maps users and has few of them.
    """
    first, last = (_FIRST_MAPPED_UID, _LAST_MAPPED_UID) if is_mapped else (_FIRST_FREE_UID, _LAST_FREE_UID)
    return first + secrets.randbelow(last - first)


MACHINE_RUNTIMES: Final = ("runsc", "kata", "io.containerd.runsc", "io.containerd.kata")


def is_machine(runtime: str | None) -> bool:
    """Return whether the runtime gives a container a kernel of its own."""
    return runtime is not None and runtime.startswith(MACHINE_RUNTIMES)


def is_whole_isolation(policy: Policy, runtime: str | None) -> bool:
    """Return whether a container serves one call and is all of its isolation, without namespaces inside.

    gVisor allows no namespaces inside. With other runtimes, a policy that requires a user namespace gets them.
    """
    is_single_use = policy.reuse.mode is ReuseMode.NEVER
    return is_single_use and (is_machine(runtime) or Layer.USER_NAMESPACE not in policy.isolation.require)


def profile_name(policy: Policy, runtime: str | None) -> ProfileName:
    """Return the name of the system-call profile for containers of this policy."""
    return "strict" if is_whole_isolation(policy, runtime) else "runner"


def are_counted_inside(policy: Policy, *, runtime: str | None, kernel: str) -> bool:
    """Return whether the kernel counts a call's processes in the call's user namespace, apart from those of ours.

    Older kernels count a user's processes in all namespaces.
    """
    if is_whole_isolation(policy, runtime) or is_machine(runtime):
        return False
    version = _VERSION.match(kernel)
    return version is not None and (int(version[1]), int(version[2])) >= _COUNTS_BY_NAMESPACE


def create_body(container: Container, policy: Policy) -> dict[str, JsonValue]:
    """Return the body of `POST /containers/create`."""
    return {
        "Image": container.image,
        "Cmd": [*container.command],
        "Entrypoint": [],
        "User": f"{container.user}:{container.user}",
        "Hostname": HOSTNAME,
        "WorkingDir": "/",
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"],
        "Labels": dict(container.labels),
        "OpenStdin": True,
        "StdinOnce": True,  # when the engine hangs up, or dies, the runner reads the end of its input
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": {**_isolation(container, policy), **_limits(container, policy)},
    }


def _isolation(container: Container, policy: Policy) -> dict[str, JsonValue]:
    has_network = policy.network.mode is NetworkMode.HOST
    return {
        "Init": True,
        "NetworkMode": "host" if has_network else "none",
        **({} if has_network or container.is_podman else _NO_NAMES),
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", container.seccomp],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,  # the box asks how it ended, and removes it
        "Tmpfs": _tmpfs(container, policy),
        "Mounts": [_mount(shown) for shown in container.mounts],
        **({"Runtime": container.runtime} if container.runtime else {}),
    }


def _tmpfs(container: Container, policy: Policy) -> dict[str, JsonValue]:
    # If calls are isolated again inside, each mounts a workplace of its own, and this one is for packages that write
    # files when they are imported. Otherwise all places that the call may write to share its disk and its inodes; the
    # daemon's own /dev/shm would come in addition and hold any number of files. gVisor covers the image's /tmp, a link
    # into the workplace, with an executable tmpfs of any size, unless the container has a tmpfs there.
    has_temporary = _GVISOR in (container.runtime or "")
    if is_whole_isolation(policy, container.runtime):
        shares = _shares(policy.limits, has_temporary=has_temporary)
    else:
        shares = dict.fromkeys((WORKPLACE, _TEMPORARY) if has_temporary else (WORKPLACE,), (OWN_BYTES, OWN_INODES))
    return {
        place: tmpfs_options(size, inodes, user=container.user, is_podman=container.is_podman)
        for place, (size, inodes) in shares.items()
    }


def _shares(limits: Limits, *, has_temporary: bool) -> dict[str, tuple[int, int]]:
    """Return the bytes and inodes of each writable place: {place: (bytes, inodes)}."""
    # No tmpfs can appear at two places, so each place has a part for itself. A tmpfs of size 0 would be unlimited.
    shared = _shared_memory(limits), max(limits.inodes // _SHARED_PART, _MIN_SHARED_INODES)
    size, inodes = limits.disk - shared[0], limits.inodes - shared[1]
    if not has_temporary:
        return {WORKPLACE: (max(size, _PAGE), inodes), _SHARED_MEMORY_AT: shared}
    half = max(_whole_pages(size // 2), _PAGE), inodes // 2
    return {WORKPLACE: half, _TEMPORARY: half, _SHARED_MEMORY_AT: shared}


def _shared_memory(limits: Limits) -> int:
    return max(min(_SHARED_MEMORY, _whole_pages(limits.disk // _SHARED_PART)), _PAGE)


def _whole_pages(size: int) -> int:
    # The kernel rounds the size of a tmpfs up to whole pages.
    return size - size % _PAGE


def tmpfs_options(size: int, inodes: int, *, user: int, is_podman: bool) -> str:
    """Return the mount options of a tmpfs that belongs to the user."""
    # Owner and mode, because Docker ignores `mode` if the folder exists. Podman allows neither an owner nor a limit of
    # inodes: its probes see the missing limit, and a container has one user only.
    own = "mode=1777" if is_podman else f"nr_inodes={inodes},uid={user},gid={user},mode=0700"
    return f"rw,noexec,nosuid,nodev,size={size},{own}"


def _mount(shown: Shown) -> JsonValue:
    return {
        "Type": "bind",
        "Source": str(shown.source),
        "Target": shown.target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _limits(container: Container, policy: Policy) -> dict[str, JsonValue]:
    limits = policy.limits
    memory = limits.memory + RUNNER_MEMORY
    processes = max_processes(policy)
    files = max(_OPEN_FILES_OF_A_RUNNER, limits.open_files)
    ulimits: list[JsonValue] = [
        {"Name": "core", "Soft": _NO_CORE, "Hard": _NO_CORE},
        {"Name": "nofile", "Soft": files, "Hard": files},
    ]
    if container.is_podman:  # Podman would raise a missing limit, which some users may not
        ulimits.append({"Name": "nproc", "Soft": 2 * processes, "Hard": 2 * processes})
    if is_machine(container.runtime):  # gVisor's own threads count as processes, too
        ulimits.append({"Name": "nproc", "Soft": processes, "Hard": processes})
        processes = _TASKS_OF_A_MACHINE + _TASKS_PER_PROCESS * processes
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": processes,
        "ShmSize": _shared_memory(limits),
        "OomScoreAdj": 500,
        "Ulimits": ulimits,
        **({"NanoCpus": limits.cpus * _NANO} if limits.cpus < container.host_cpus else {}),
    }


def readable_folders(policy: Policy, *, is_visible: bool) -> list[Shown]:
    """Return the policy's mounts of host files; raise if the daemon lacks them or they would hide the image's."""
    paths = readable_paths(policy.filesystem.readable)
    if paths and not is_visible:
        raise IsolationUnavailable(
            f"policy '{policy.name}' shows files of this machine, which containers of a daemon elsewhere cannot see",
            missing=("filesystem.readable",),
            remedy="use a daemon on this machine, the subprocess backend, or `files` of the call",
        )
    for path in paths:
        if any(is_within(own, parent=path) for own in _OF_THE_IMAGE):
            raise IsolationUnavailable(
                f"policy '{policy.name}' shows {path}, where a container has the files of its image",
                missing=("filesystem.readable",),
                remedy="show folders below it, or use the subprocess backend",
            )
    return [Shown(Path(os.path.realpath(path)), path) for path in paths]


def max_processes(policy: Policy) -> int:
    """Return the largest number of processes in a container: the call's and ours."""
    # In a container for many calls ours come and go, and the kernel must refuse none: the refusal would count as the
    # call's.
    children, others = (1, 0) if policy.reuse.mode is ReuseMode.NEVER else (1 + AHEAD, _OTHERS)
    return policy.limits.processes + _INIT_AND_ZYGOTE + children * _PER_CHILD - 1 + others
