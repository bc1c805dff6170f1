"""Verification: the isolation of the process that will run a tool, read from outside that process.

A guard runs this code. The guard never runs foreign code, and lets the tool's process read its request only after this
check. So a process that lost a layer of isolation, or in which foreign code replaced the runner's functions, is found
here and killed before it gets any argument.

All facts come from the kernel: ``/proc/<number>`` of the process, and prlimit(2). Facts about a namespace and not a
process (interfaces, disks) are read by the guard for itself, because the check makes sure that both share every
namespace. Landlock is not visible; the guard tries an operation that only Landlock refuses, where it shares the domain.

Most children of a box have the same isolation. The zygote remembers the raw text and its record, and a guard that reads
the same text sends the same record, because encoding costs more than reading.
"""

from __future__ import annotations

import os
import resource
import stat
import time

from box import pipes, workdir
from box.isolation import IS_LINUX, IsolationFault

if IS_LINUX:
    from kernel import capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_READ_SIZE = 1 << 16
_PRIVILEGES = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
    "data": resource.RLIMIT_DATA,
}
_NAMESPACES = {
    "user": "user",
    "mount": "mnt",
    "pid": "pid",
    "network": "net",
    "ipc": "ipc",
    "uts": "uts",
    "cgroup": "cgroup",
}
OWN = "self"
STOPPED = "T"
_THREADS = 17
"""The index in /proc/<pid>/stat, counted from the state, which follows the command's closing bracket."""
_MEMORY_FILES = ("/memfd:", "/SYSV", "/dev/zero", "/dev/shm", "/tmp")
_CLOCK_OF_PROCESS = 2


class ProcessRef:
    """The process to verify: its number in /proc, and its pid as the guard sees it.

    A container shows the /proc of its own pid namespace, where the two numbers differ.
    """

    __slots__ = ("number", "pid")

    def __init__(self, number: str, pid: int) -> None:
        self.number = number
        self.pid = pid


def own_number() -> str:
    """Return the number of this process in the /proc that it sees; an empty text without /proc."""
    try:
        return os.readlink("/proc/self")
    except OSError:
        return ""


def namespaces(number: str = OWN) -> dict[str, str]:
    """Return the namespaces of a process: {kind: name}."""
    found = {}
    for kind, link in _NAMESPACES.items():
        try:
            found[kind] = os.readlink("/proc/%s/ns/%s" % (number, link))
        except OSError:
            continue
    return found


def open_namespaces(kinds: Sequence[str]) -> list[int]:
    """Return descriptors of this process's own namespaces, by which another process can join them."""
    opened: list[int] = []
    try:
        opened.extend(os.open("/proc/self/ns/" + _NAMESPACES[kind], os.O_RDONLY | os.O_CLOEXEC) for kind in kinds)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def data_bytes(number: str = OWN) -> int:
    """Return the amount that the kernel counts as data of a process, or 0 if unknown."""
    sizes = read_file("/proc/%s/statm" % number).split()
    return int(sizes[5]) * resource.getpagesize() if sizes else 0


def cpu_seconds(pid: int) -> float:
    """Return the processor time of another process."""
    try:
        return time.clock_gettime(((~pid) << 3) | _CLOCK_OF_PROCESS)
    except OSError:
        return 0.0


def subject_of(number: str, *, guard: str) -> ProcessRef:
    """Return the process that claims this number; raise IsolationFault unless it is a single thread below `guard`."""
    status = read_file("/proc/%s/status" % number) if number.isdigit() else ""
    fields = _fields(status)
    if fields.get("PPid") != guard:
        raise IsolationFault("processes", "the call's process is not a child of its guard")
    if fields.get("Threads", "1") != "1":
        raise IsolationFault("processes", "the call's process has threads of its own")
    if fields.get("TracerPid", "0") != "0":
        raise IsolationFault("processes", "another process traces the call's process")
    return ProcessRef(number, int(fields.get("NSpid", number).split()[-1]))


def name_of(descriptor: int) -> str:
    """Return the kernel's name for an open file of this process; every pipe and socket has a unique name."""
    return os.readlink("/proc/self/fd/%d" % descriptor)


def check_descriptors(subject: ProcessRef, allowed: set[str]) -> None:
    """Raise IsolationFault if the process has anything open but these files and the null device.

    So the process can neither move to another control group, nor receive anything from the template later on.
    """
    folder, null = "/proc/%s/fd/" % subject.number, os.stat(os.devnull).st_rdev
    for number in os.listdir(folder):
        if os.readlink(folder + number) not in allowed and os.stat(folder + number).st_rdev != null:
            raise IsolationFault("processes", "the call's process has more open than its pipes")


def check_mappings(subject: ProcessRef, workplace: str) -> None:
    """Raise IsolationFault if the process shares memory that any process can write to.

    So the process cannot pass anything to another call. All files of a box are read-only, except those in `workplace`.
    """
    text = read_whole("/proc/%s/maps" % subject.number)
    if b"s " not in text:
        return
    for line in text.splitlines():
        fields = line.split(None, 5)
        path = fields[5].decode("utf-8", "replace") if len(fields) > 5 else ""
        is_file = path.startswith("/") and not path.startswith((workplace, *_MEMORY_FILES))
        if fields[1].endswith(b"s") and (b"w" in fields[1] or not is_file):
            raise IsolationFault("processes", "the call's process shares memory with another")


class GuardFacts:
    """Facts that the guard reads about itself before there is a process to verify, and that both have in common.

    `restricted` is the report of the Landlock rules that the process should have.
    """

    __slots__ = ("interfaces", "is_landlocked", "namespaces", "number", "privileges", "restricted", "workplace")

    def __init__(self, plan: dict[str, Any], restricted: dict[str, object] | None) -> None:
        self.restricted = restricted
        self.number = own_number()
        self.namespaces = namespaces()
        self.privileges = _privileges(read_file("/proc/self/status"))
        self.is_landlocked = bool(restricted) and (bool(plan.get("template")) or is_landlocked())
        self.interfaces = read_file("/proc/net/dev")
        self.workplace = _workplace(plan)


def read(plan: dict[str, Any], own: GuardFacts, subject: ProcessRef) -> list[Any]:
    """Return the kernel's facts about the isolation of that process, as raw text where that saves time."""
    status = read_file("/proc/%s/status" % subject.number)
    inside, around = namespaces(subject.number), plan["around"]
    return [
        [kind for kind in inside if inside[kind] != around.get(kind) and inside[kind] == own.namespaces.get(kind)],
        inside == own.namespaces,
        _privileges(status),
        _ids(status, "Uid", os.getuid()),
        _ids(status, "Gid", os.getgid()),
        own.is_landlocked,
        own.interfaces,
        [resource.prlimit(subject.pid, kind)[1] for kind in _LIMITS.values()],
        len(os.sched_getaffinity(subject.pid)),
        own.workplace,
    ]


def interpret(said: list[Any], restricted: dict[str, object] | None) -> dict[str, Any]:
    """Return the isolation that `read` describes."""
    kinds, _, privileges, uid, gid, is_landlocked, interfaces, limits, cpus, place = said
    now = _fields(privileges)
    return {
        "namespaces": kinds,
        "no_new_privs": now["NoNewPrivs"] == "1" if "NoNewPrivs" in now else _is_without_new_privileges(),
        "seccomp_filters": int(now.get("Seccomp_filters", now.get("Seccomp", "0"))),
        "capabilities": {name: now[name] for name in _PRIVILEGES if name.startswith("Cap") and name in now},
        "uid": _only(uid),
        "gid": _only(gid),
        "landlock": restricted if is_landlocked else None,
        "interfaces": _interfaces(interfaces),
        "limits": dict(zip(_LIMITS, limits)),
        "cpus": cpus,
        "workplace": place,
    }


def find_missing(isolation: Mapping[str, Any], required: Sequence[str]) -> list[str]:
    """Return the required layers that are not in force, in their order."""
    capabilities = isolation["capabilities"]
    found = {kind + "_namespace" for kind in isolation["namespaces"]}
    found.add("rlimits")
    if isolation["no_new_privs"]:
        found.add("no_new_privs")
    if isolation["seccomp_filters"]:
        found.add("seccomp")
    if isolation["landlock"]:
        found.add("landlock")
    # The kernel keeps the ambient set within the permitted set; gVisor does not show the ambient set.
    held = [capabilities.get(name, "1") for name in ("CapEff", "CapPrm", "CapInh")]
    if all(int(value, 16) == 0 for value in (*held, capabilities.get("CapAmb", "0"))):
        found.add("capabilities")
    if isolation["uid"] != 0:
        found.add("own_uid")
    return [layer for layer in required if layer not in found]


def verify(plan: dict[str, Any], own: GuardFacts, subject: ProcessRef) -> tuple[bytes, list[Any] | None]:
    """Return the record of the isolation of that process, and the raw text if the zygote should remember it.

    IsolationFault names the missing layer.
    """
    try:
        said = read(plan, own, subject)
    except OSError as error:
        raise IsolationFault("processes", "the call's process cannot be read: %s" % error) from error
    if said[2] != own.privileges:
        raise IsolationFault("seccomp", "the call's process has other filters or rights than its guard")
    if not said[1] and plan["namespaces"]:  # gVisor gives a namespace another name at every look
        raise IsolationFault("pid_namespace", "the call's process is not in the namespaces of its guard")
    known = plan.get("known")
    if known and known[0] == said:
        return known[1], None
    record = describe(plan, said, own.restricted)
    return record, said if known is None and "label" not in plan else None


def describe_spent(plan: dict[str, Any], pid: int, said: list[Any] | None = None, *, elsewhere: float = 0.0) -> bytes:
    """Return the record of the processor time so far.

    Where a control group counts the call, that is the time in the group: it includes the guard's own, and not the time
    that the process used `elsewhere`.
    """
    spent = cpu_seconds(pid)
    if plan.get("is_counted"):
        spent += time.process_time() - elsewhere
    return b'{"cpu_s": %f}' % spent if said is None else pipes.encode_record({"cpu_s": spent, "said": said})


def remember(plan: dict[str, Any], said: list[Any] | None, record: bytes | None) -> None:
    """Keep the record for this raw text, for the guards that the zygote forks from now on."""
    if said and record:
        plan["known"] = (said, record)


def describe(plan: dict[str, Any], said: list[Any], restricted: dict[str, object] | None) -> bytes:
    """Return the record of the isolation; raise IsolationFault for a required layer that is not in force."""
    found = interpret(said, restricted)
    absent = find_missing(found, plan["required"])
    if absent:
        raise IsolationFault(absent[0], "required, but not in force when measured")
    if "label" in plan:
        found["egress"] = plan["label"]
    return pipes.encode_record({"walls": found})


def describe_fault(fault: IsolationFault) -> bytes:
    """Return the record of a missing layer."""
    return pipes.encode_record({"fault": {"layer": fault.layer, "reason": fault.reason}})


def rehearse(plan: dict[str, Any]) -> None:
    """Read and encode the zygote's own state once, so that every fork shares the memory that this takes."""
    bare, subject = dict(plan, workplace=None, required=()), ProcessRef(OWN, os.getpid())
    describe(bare, read(bare, GuardFacts(bare, None), subject), None)
    describe_spent(plan, subject.pid)


def state_of(pid: int) -> tuple[str, int]:
    """Return the state of a process as one letter, and its number of threads; an empty state for a missing process."""
    fields = read_file("/proc/%d/stat" % pid).rpartition(")")[2].split()
    return (fields[0], int(fields[_THREADS])) if fields else ("", 0)


def field_of(pid: int, name: str) -> str:
    """Return one field of the status of a process; an empty text if there is no such field."""
    status = read_file("/proc/%d/status" % pid)
    start = status.find("\n" + name + ":\t")
    return status[start + len(name) + 3 : status.find("\n", start + 1)] if start >= 0 else ""


def read_file(path: str) -> str:
    """Return a file of /proc in one read, as the kernel makes it; an empty text for a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _READ_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def is_landlocked(folder: str = ".") -> bool:
    """Try to make a whiteout node: only Landlock refuses that. The tool's process inherits the guard's domain."""
    probe = "%s/.%d" % (folder, os.getpid())
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, 0)
    except OSError:
        return True
    os.unlink(probe)
    return False


def read_whole(path: str) -> bytes:
    """Return a file that the kernel gives in pieces; raise OSError for a missing file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = data = os.read(descriptor, _READ_SIZE)
        while data:
            data = os.read(descriptor, _READ_SIZE)
            found += data
        return found
    finally:
        os.close(descriptor)


def _is_without_new_privileges() -> bool:
    """Ask a kernel that does not show the flag, such as gVisor's; the tool's process inherits it from its guard."""
    return IS_LINUX and capabilities.new_privileges_forbidden()


def _privileges(status: str) -> str:
    """Return the lines of a status file from the first about privileges to the last, which follow each other."""
    end = status.find("\nCpus_allowed")
    return status[max(status.find("\nCapInh"), 0) : end if end >= 0 else len(status)]


def _ids(status: str, name: str, own: int) -> str:
    """Return the line of real, effective, saved and file system ids; a kernel without it leaves the guard's own id."""
    start = status.find("\n" + name + ":")
    return status[start + len(name) + 2 : status.find("\n", start + 1)] if start >= 0 else str(own)


def _fields(text: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def _only(ids: str) -> int:
    """Return the one id of a line of real, effective, saved and file system ids; 0 if they differ."""
    found = set(ids.split())
    return int(found.pop()) if len(found) == 1 else 0


def _interfaces(text: str) -> list[str] | None:
    """Return the names of the interfaces: one line each, after two lines of headings."""
    return sorted(line.partition(":")[0].strip() for line in text.splitlines()[2:]) if text else None


def _workplace(plan: dict[str, Any]) -> dict[str, Any] | None:
    if not plan["workplace"]:
        return None
    size = inodes = 0
    for disk in workdir.disks(plan):
        size += disk.f_blocks * disk.f_frsize
        inodes += disk.f_files
    return {"bytes": size, "inodes": inodes, "read_only_root": _is_read_only("/")}


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
