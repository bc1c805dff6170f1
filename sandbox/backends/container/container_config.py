"""From a plan to a container: everything that walls it, always, as the document the daemon is given.

Nothing here depends on whether a policy asks for it: a numeric user that is nobody else's, no capabilities, no new
privileges, our own system-call filter, a read-only root, limits on the whole tree, nothing of the host but what is
shown read-only, no log that could fill a disk. What a policy decides is the size of things, and whether a developer's
own code has the host's network; all others have none.

One call at a time runs in a container, so its control group is the call's: what the kernel counts and limits there, it
counts for that call, and for the runner beside it, which gets an allowance on top.
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
from sandbox.backends.subprocess.isolation import OWN_BYTES, OWN_INODES
from sandbox.backends.subprocess.rootfs import readable_paths
from sandbox.egress import SHOWN_AT
from sandbox.errors import IsolationUnavailable
from sandbox.policy import Layer, Limits, NetworkMode, Policy, ReuseMode
from sandbox.policy.paths import is_within

WORKPLACE: Final = "/work"
_TEMPORARY: Final = "/tmp"
_OF_THE_IMAGE: Final = ("/bin", "/lib", "/lib64", "/sbin", "/usr/bin", "/usr/lib", ENVIRONMENT, SHOWN_AT)
HOSTNAME: Final = "sandbox"
AHEAD: Final = 1
"""A container serves one call at a time, so one child waits for the next."""
RUNNER_MEMORY: Final = 32 << 20
_INIT_AND_ZYGOTE: Final = 2
_PER_CHILD: Final = 2  # its guard, and its tool's first process
OURS_BESIDE_A_CALL: Final = _INIT_AND_ZYGOTE + 1
"""The processes that are there while a call runs and are not the call's: its guard, too."""
_OTHERS: Final = 8
"""What else of ours may run for a moment in a container for many calls, such as what forks a child ahead."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_COUNTS_BY_NAMESPACE: Final = (5, 14)
_TASKS_OF_A_MACHINE, _TASKS_PER_PROCESS = 256, 16
"""The host's own tasks that a kernel of its own takes, and those for each process in it: gVisor takes seven of them
where it traces. Were one refused, it would end with all that is in it."""
_NO_NAMES: Final[dict[str, JsonValue]] = {"Dns": ["127.0.0.1"], "DnsSearch": ["."]}
"""Docker shows every container who looks names up for the host, and in which domains."""
_SHARED_MEMORY: Final = 16 << 20
_SHARED_MEMORY_AT: Final = "/dev/shm"
_SHARED_PART: Final = 8
_LEAST_SHARED_INODES: Final = 2  # one is the folder itself
_PAGE: Final = 4096
_GVISOR: Final = "runsc"
_OPEN_FILES_OF_A_RUNNER: Final = 1024
_FIRST_FREE_UID, _LAST_FREE_UID = 0x70000000, 0x7FFFFFF0
_FIRST_MAPPED_UID, _LAST_MAPPED_UID = 20000, 60000
_NO_CORE: Final = 1
"""A core of one byte is none; with a limit of none at all, the kernel hands it to a program of the host's."""
_NANO: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Container:
    """What one container is made for, beside its policy."""

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
    """A user id that no other box has: high ones that no distribution hands out, or, where the daemon maps users and
    has only so many, one of those."""
    first, last = (_FIRST_MAPPED_UID, _LAST_MAPPED_UID) if is_mapped else (_FIRST_FREE_UID, _LAST_FREE_UID)
    return first + secrets.randbelow(last - first)


MACHINE_RUNTIMES: Final = ("runsc", "kata", "io.containerd.runsc", "io.containerd.kata")


def is_machine(runtime: str | None) -> bool:
    """Whether the runtime gives a container a kernel of its own."""
    return runtime is not None and runtime.startswith(MACHINE_RUNTIMES)


def stands_alone(policy: Policy, runtime: str | None) -> bool:
    """Whether its containers are for one call each and are that call's wall: nobody in them makes another. Under gVisor
    nobody could; elsewhere a policy that demands a user namespace has its calls walled once more."""
    is_single_use = policy.reuse.mode is ReuseMode.NEVER
    return is_single_use and (is_machine(runtime) or Layer.USER_NAMESPACE not in policy.isolation.require)


def profile_name(policy: Policy, runtime: str | None) -> ProfileName:
    """Which of our system call profiles its containers have."""
    return "strict" if stands_alone(policy, runtime) else "runner"


def are_counted_inside(policy: Policy, *, runtime: str | None, kernel: str) -> bool:
    """Whether a call meets its limit of processes in the user namespace of its own, which counts nothing else: exactly,
    whatever of ours the container has besides. Older kernels count a user's processes in all namespaces."""
    if stands_alone(policy, runtime) or is_machine(runtime):
        return False
    version = _VERSION.match(kernel)
    return version is not None and (int(version[1]), int(version[2])) >= _COUNTS_BY_NAMESPACE


def document(container: Container, policy: Policy) -> dict[str, JsonValue]:
    """What `POST /containers/create` is told."""
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
        "HostConfig": {**_walls(container, policy), **_limits(container, policy)},
    }


def _walls(container: Container, policy: Policy) -> dict[str, JsonValue]:
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
        "AutoRemove": False,  # whoever opened it asks how it ended, and removes it
        "Tmpfs": _tmpfs(container, policy),
        "Mounts": [_mount(shown) for shown in container.mounts],
        **({"Runtime": container.runtime} if container.runtime else {}),
    }


def _tmpfs(container: Container, policy: Policy) -> dict[str, JsonValue]:
    """The workplace. Where calls are walled again, each mounts one of its own there, and this one is for packages that
    write when they are imported. Owner and mode are given, because Docker ignores `mode` where the folder exists.

    Where the container is the call's wall, all places that the call may write to share its disk and its inodes. The
    daemon's own `/dev/shm` would come on top of them and hold any number of files. gVisor covers the image's `/tmp`, a
    link into the workplace, with a tmpfs of its own, of any size and for programs to be run from, unless there is to be
    one already."""
    has_temporary = _GVISOR in (container.runtime or "")
    if stands_alone(policy, container.runtime):
        shares = _shares(policy.limits, has_temporary=has_temporary)
    else:
        shares = dict.fromkeys((WORKPLACE, _TEMPORARY) if has_temporary else (WORKPLACE,), (OWN_BYTES, OWN_INODES))
    return {
        place: tmpfs_options(size, inodes, user=container.user, is_podman=container.is_podman)
        for place, (size, inodes) in shares.items()
    }


def _shares(limits: Limits, *, has_temporary: bool) -> dict[str, tuple[int, int]]:
    """What each place gets of the disk and the inodes: {place: (bytes, inodes)}. Nothing can be mounted twice in there,
    so each has a part for itself. A tmpfs of no size has any."""
    shared = _shared_memory(limits), max(limits.inodes // _SHARED_PART, _LEAST_SHARED_INODES)
    size, inodes = limits.disk - shared[0], limits.inodes - shared[1]
    if not has_temporary:
        return {WORKPLACE: (max(size, _PAGE), inodes), _SHARED_MEMORY_AT: shared}
    half = max(_whole_pages(size // 2), _PAGE), inodes // 2
    return {WORKPLACE: half, _TEMPORARY: half, _SHARED_MEMORY_AT: shared}


def _shared_memory(limits: Limits) -> int:
    return max(min(_SHARED_MEMORY, _whole_pages(limits.disk // _SHARED_PART)), _PAGE)


def _whole_pages(size: int) -> int:
    """A tmpfs of part of a page would have all of that."""
    return size - size % _PAGE


def tmpfs_options(size: int, inodes: int, *, user: int, is_podman: bool) -> str:
    """Of a tmpfs that is the user's. Podman lets nobody limit inodes or name an owner: its canaries see the one, and
    of the other nothing is lost where there is one user only."""
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
    processes = most_processes(policy)
    files = max(_OPEN_FILES_OF_A_RUNNER, limits.open_files)
    ulimits: list[JsonValue] = [
        {"Name": "core", "Soft": _NO_CORE, "Hard": _NO_CORE},
        {"Name": "nofile", "Soft": files, "Hard": files},
    ]
    if container.is_podman:  # it would raise what is not given, which not everybody may
        ulimits.append({"Name": "nproc", "Soft": 2 * processes, "Hard": 2 * processes})
    if is_machine(container.runtime):  # its own threads count as processes, too
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
    """Return what of the host's files the policy shows, if the daemon has them and no file of the image is covered."""
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


def most_processes(policy: Policy) -> int:
    """All processes there may be in a container: the call's, and ours next to them. In one for many calls ours come
    and go, and must not be refused: no call is to be told of that."""
    children, others = (1, 0) if policy.reuse.mode is ReuseMode.NEVER else (1 + AHEAD, _OTHERS)
    return policy.limits.processes + _INIT_AND_ZYGOTE + children * _PER_CHILD - 1 + others
