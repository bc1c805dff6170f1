"""What the walls around this process really are, read back from the kernel.

Taken after the last wall is up and before foreign code runs. Every call reads all of it; what is read is the same for
nearly all calls of a box, and what it means is then known from the one before (see findings.py). A namespace is in
force when its link differs from the zygote's; privileges, filters and limits are what /proc and getrlimit say;
Landlock, which the kernel does not show, is tried: making a device node is a right it never grants here, and the one
kind that needs no privilege is refused only by Landlock.
"""

from __future__ import annotations

import os
import resource
import stat

import workplace
from walls import IS_LINUX

if IS_LINUX:
    from kernel import capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_READ_SIZE = 1 << 16
_OF_PRIVILEGES = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
    "data": resource.RLIMIT_DATA,
}
_NAMESPACES = {
    "user": "/proc/self/ns/user",
    "mount": "/proc/self/ns/mnt",
    "pid": "/proc/self/ns/pid",
    "network": "/proc/self/ns/net",
    "ipc": "/proc/self/ns/ipc",
    "uts": "/proc/self/ns/uts",
    "cgroup": "/proc/self/ns/cgroup",
}


def namespaces() -> dict[str, str]:
    """The namespaces this process is in: {kind: name}."""
    found = {}
    for kind, link in _NAMESPACES.items():
        try:
            found[kind] = os.readlink(link)
        except OSError:
            continue
    return found


def data_bytes() -> int:
    """What the kernel counts as this process's data, which is not a call's that is forked from it; 0 when it does not
    say."""
    sizes = _read("/proc/self/statm").split()
    return int(sizes[5]) * resource.getpagesize() if sizes else 0


def walls(plan: dict[str, Any], landlock: dict[str, object] | None) -> dict[str, Any]:
    """Everything the receipt says about the inside of this call."""
    return interpret(read(plan, landlock), landlock)


def read(plan: dict[str, Any], landlock: dict[str, object] | None) -> list[Any]:
    """What the kernel says of this process now, in its own words: where it says the same as before, it means the same,
    so the little that is done here is all that a call needs."""
    inside, around = namespaces(), plan["around"]
    return [
        [kind for kind in inside if inside[kind] != around.get(kind)],
        _privileges(),
        os.getuid(),
        os.getgid(),
        bool(landlock) and _is_landlocked(),
        _read("/proc/net/dev"),
        [resource.getrlimit(kind)[1] for kind in _LIMITS.values()],
        _cpus(),
        _workplace(plan),
    ]


def interpret(said: list[Any], landlock: dict[str, object] | None) -> dict[str, Any]:
    """What that means; `landlock` is what it was asked to restrict."""
    kinds, privileges, uid, gid, is_landlocked, interfaces, limits, cpus, place = said
    now = _status(privileges)
    return {
        "namespaces": kinds,
        "no_new_privs": now["NoNewPrivs"] == "1" if "NoNewPrivs" in now else _is_without_new_privileges(),
        "seccomp_filters": int(now.get("Seccomp_filters", now.get("Seccomp", "0"))),
        "capabilities": {name: now[name] for name in now if name.startswith("Cap")},
        "uid": uid,
        "gid": gid,
        "landlock": landlock if is_landlocked else None,
        "interfaces": _interfaces(interfaces),
        "limits": dict(zip(_LIMITS, limits)),
        "cpus": cpus,
        "workplace": place,
    }


def missing(walls: dict[str, Any], required: Sequence[str]) -> list[str]:
    """The required layers that the measurement does not find, in their order."""
    capabilities = walls["capabilities"]
    found = {kind + "_namespace" for kind in walls["namespaces"]}
    found.add("rlimits")
    if walls["no_new_privs"]:
        found.add("no_new_privs")
    if walls["seccomp_filters"]:
        found.add("seccomp")
    if walls["landlock"]:
        found.add("landlock")
    # The ambient set is always within the permitted one; gVisor does not show it.
    held = [capabilities.get(name, "1") for name in ("CapEff", "CapPrm", "CapInh")]
    if all(int(value, 16) == 0 for value in (*held, capabilities.get("CapAmb", "0"))):
        found.add("capabilities")
    if walls["uid"] != 0:
        found.add("own_uid")
    return [layer for layer in required if layer not in found]


def _is_without_new_privileges() -> bool:
    """Asked of a kernel that does not show it, as gVisor does not."""
    return IS_LINUX and capabilities.new_privileges_forbidden()


def _is_landlocked() -> bool:
    """Try what only Landlock refuses: a whiteout node, the one device anybody may make."""
    probe = ".%d" % os.getpid()
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, 0)
    except OSError:
        return True
    os.unlink(probe)
    return False


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _privileges() -> str:
    """The lines of /proc/self/status from the first that tells of privileges to the last; they follow each other."""
    text = _read("/proc/self/status")
    end = text.find("\nCpus_allowed")
    return text[max(text.find("\nCapInh"), 0) : end if end >= 0 else len(text)]


def _status(text: str) -> dict[str, str]:
    """What these lines say of privileges; gVisor leaves some out."""
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {name: lines[name] for name in _OF_PRIVILEGES if name in lines}


def _interfaces(text: str) -> list[str] | None:
    """Those there are: a line for each, after two of headings."""
    return sorted(line.partition(":")[0].strip() for line in text.splitlines()[2:]) if text else None


def _read(path: str) -> str:
    """A file of /proc, in one read as the kernel makes it; empty where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _READ_SIZE).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _workplace(plan: dict[str, Any]) -> dict[str, Any] | None:
    if not plan["workplace"]:
        return None
    size = inodes = 0
    for disk in workplace.disks(plan):
        size += disk.f_blocks * disk.f_frsize
        inodes += disk.f_files
    return {"bytes": size, "inodes": inodes, "read_only_root": _is_read_only("/")}


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
