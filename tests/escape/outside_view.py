"""The kernel's view of a process inside a box, from the host, compared with the receipt.

Nothing here asks a box. A tool that waits is found by the signals that it blocks (`SigBlk` in `/proc/<pid>/status`),
processes that a package left by their name, and what belongs to an engine by descent and by the user ids of its boxes.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.backends.subprocess.groups import find_hierarchies
from sandbox.outcome import Receipt

NAMESPACES: Final = {
    "user": "user",
    "mount": "mnt",
    "pid": "pid",
    "network": "net",
    "ipc": "ipc",
    "uts": "uts",
    "cgroup": "cgroup",
}
HELD: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")
_LIMITS: Final = {"open_files": "Max open files", "file_size": "Max file size"}
_MEMORY: Final = ("memory.limit_in_bytes", "memory.max")
_GROUPS: Final = Path("/sys/fs/cgroup")
ALLOWANCE: Final = (4 << 20) + (32 << 20)
"""The engine's addition to a call's memory for its guard, and in a container for the runner."""
_KCMP: Final = {"x86_64": 312, "aarch64": 272}
_SHARED_BY_PROCESSES: Final = {"memory": 1, "descriptors": 2, "folders": 3}
"""The kinds of objects that the system call `kcmp` compares."""
PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as the host sees it."""

    pid: int
    status: dict[str, str]
    namespaces: dict[str, str]
    above: dict[str, dict[str, str]]
    """The first process above it that is not in its pid namespace, and that process's namespaces."""
    limits: dict[str, int]
    memory_limit: int | None
    group: str
    descriptors: tuple[str, ...]
    shared_memory: tuple[str, ...]

    @property
    def uid(self) -> int:
        return int(self.status["Uid"].split()[1])

    @property
    def filters(self) -> int:
        return int(self.status["Seccomp_filters"])

    @property
    def has_rights(self) -> bool:
        return any(int(self.status[name], 16) for name in HELD)


def pids() -> list[int]:
    """Every process of this machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def status_of(pid: int) -> dict[str, str]:
    """The fields of its status; none where the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("latin-1").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def find_waiting(marks: Sequence[int]) -> int | None:
    """The process that waits for the first of these real-time signals, which is not blocked then, and blocks exactly
    the rest of them."""
    wanted = sum(1 << mark - 1 for mark in marks[1:])
    real_time = sum(1 << number - 1 for number in range(34, 65))
    for pid in pids():
        if int(status_of(pid).get("SigBlk", "0"), 16) & real_time == wanted:
            return pid
    return None


def signal_main_thread(pid: int, number: int) -> None:
    """Send a signal that no other thread of the process can take instead; nothing happens if the process is gone."""
    ctypes.CDLL(None).tgkill(pid, pid, number)


def named(start: str, *, token: str, codes: Collection[str] = ()) -> list[int]:
    """The processes that took a name of that kind in this test run, but for those that only wait to be reaped; only
    those of the packages with these codes, if there are any."""
    found = []
    for pid in pids():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        is_ours = name.startswith(start + token) and (not codes or name.removeprefix(start + token) in codes)
        if is_ours and not status_of(pid).get("State", "Z").startswith("Z"):
            found.append(pid)
    return found


def look(pid: int) -> Seen:
    """Read all that the host shows of a process."""
    limits = {
        line[:25].strip(): line[25:].split()[1] for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    }
    group, own = _memory_group(pid), namespaces_of(pid)
    return Seen(
        pid=pid,
        status=status_of(pid),
        namespaces=own,
        above=_first_above(pid, own),
        limits={name: int(limits[line]) if limits[line].isdigit() else -1 for name, line in _LIMITS.items()},
        memory_limit=_memory_limit(group),
        group=group,
        descriptors=tuple(sorted(_descriptors(pid))),
        shared_memory=tuple(_shared_memory(pid)),
    )


def _first_above(pid: int, own: dict[str, str]) -> dict[str, dict[str, str]]:
    """To be read while the process lives: the kernel gives the number of a namespace that is gone to the next one."""
    for above in parents(pid):
        theirs = namespaces_of(above)
        if theirs and theirs.get("pid") != own["pid"]:
            return {f"process {above}": theirs}
    return {}


def namespaces_of(pid: int | str) -> dict[str, str]:
    """The names of its namespaces; none where the process is gone."""
    found = {}
    for kind, name in NAMESPACES.items():
        try:
            found[kind] = os.readlink(f"/proc/{pid}/ns/{name}")
        except OSError:
            continue
    return found


def _memory_group(pid: int) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(",") or (not controllers and not (_GROUPS / "memory").is_dir()):
            return path
    return ""


def _memory_limit(group: str) -> int | None:
    for root in (_GROUPS / "memory", _GROUPS):
        for name in _MEMORY:
            file = root / group.lstrip("/") / name
            if group and file.is_file() and (text := file.read_text().strip()).isdigit():
                return int(text) if int(text) < 1 << 62 else None
    return None


def _descriptors(pid: int) -> Iterator[str]:
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}").partition(":")[0]
        except OSError:
            continue


def _shared_memory(pid: int) -> Iterator[str]:
    """The mappings that this process could write to, and share with another."""
    for line in Path(f"/proc/{pid}/maps").read_text("latin-1").splitlines():
        rights = line.split()[1]
        if rights[1] == "w" and rights[3] == "s":
            yield line


def shared_with(pid: int, other: int) -> list[str]:
    """Return the objects that two processes share although no fork leaves them shared."""
    libc, number = ctypes.CDLL(None), _KCMP[os.uname().machine]
    shared = [name for name, kind in _SHARED_BY_PROCESSES.items() if libc.syscall(number, pid, other, kind, 0, 0) == 0]
    # To the kernel, processes that have ended share the memory that they no longer have.
    return shared if all("VmSize" in status_of(each) for each in (pid, other)) else []


def kept_of(pid: int, other: int) -> list[str]:
    """The pipes, sockets and namespaces of one process that another, which has been stopped, holds as well.

    Pipes lead from a call to its guard and to the zygote, which run; what forks calls is stopped while none is forked.
    """
    if not status_of(other).get("State", "").startswith("T"):
        return []
    own = {*_handles(pid), *namespaces_of(pid).values()}
    return sorted(own & _handles(other))


def _handles(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return {each for each in found if ":[" in each}


def parents(pid: int) -> Iterator[int]:
    """The process that started it, that one's, and so on."""
    while (pid := int(status_of(pid).get("PPid", "0"))) > 1:
        yield pid


def describe(pid: int) -> str:
    """Return the name and state of a process, and the processes above it: the adopter shows who missed it."""
    status = status_of(pid)
    above = ", ".join(f"{status_of(each).get('Name')} {each}" for each in parents(pid))
    return f"process {pid} {status.get('Name')}, {status.get('State')}, NSpid {status.get('NSpid')}, below {above}"


def family(root: int, users: Iterable[int]) -> set[int]:
    """The processes that descend from this one or run as one of these users."""
    statuses = {pid: status_of(pid) for pid in pids()}
    wanted = {str(user) for user in users}
    found = {pid for pid, status in statuses.items() if status and status["Uid"].split()[1] in wanted}
    below: dict[int, list[int]] = {}
    for pid, status in statuses.items():
        below.setdefault(int(status.get("PPid", "0")), []).append(pid)
    pending = list(below.get(root, ()))
    while pending:
        pid = pending.pop()
        found.add(pid)
        pending += below.pop(pid, ())
    return found - {root}


def ticks(processes: Iterable[int]) -> int:
    """The processor time of these processes, in hundredths of a second, or what this kernel counts in."""
    total = 0
    for pid in processes:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


def own_bytes(processes: Iterable[int]) -> int:
    """The memory of these processes that no file stands behind; a page that some of them share counts once."""
    total = 0
    for pid in processes:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total * 1024


def wait_until(condition: Callable[[], bool], *, within: float) -> bool:
    """Whether it came to hold in time."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def complaints(receipt: Receipt, seen: Seen, *, engine: int) -> list[str]:
    """Return the false claims of a receipt."""
    found = [f"{name}: {detail}" for name, detail in _about_layers(receipt, seen, engine=engine) if detail]
    return found + [f"limit {name}: {detail}" for name, detail in _about_limits(receipt, seen) if detail]


def _about_layers(receipt: Receipt, seen: Seen, *, engine: int) -> Iterator[tuple[str, str]]:
    layers = receipt.layers
    yield "seccomp", _about_filters(layers["seccomp"].detail, seen) if layers["seccomp"].in_force else ""
    if layers["capabilities"].in_force and seen.has_rights:
        yield "capabilities", "; ".join(f"{name} {seen.status[name]}" for name in HELD)
    if layers["no_new_privs"].in_force and seen.status["NoNewPrivs"] != "1":
        yield "no_new_privs", "not set"
    for kind, name in _claimed_namespaces(receipt):
        others = {"the engine": namespaces_of(engine), **(seen.above if name == "its own" else {})}
        shared = [other for other, theirs in others.items() if theirs.get(kind) == seen.namespaces[kind]]
        yield f"{kind}_namespace", f"shared with {', '.join(shared)}" if shared else ""
    if "cgroup" in layers and layers["cgroup"].in_force:
        yield "cgroup", "" if seen.memory_limit else f"no limit on the memory of {seen.group or 'its group'}"
    if layers.get("own_uid") and layers["own_uid"].in_force:
        yield "own_uid", "the engine's" if seen.uid == int(status_of(engine)["Uid"].split()[1]) else ""


def _about_filters(detail: str, seen: Seen) -> str:
    told = re.search(r"(\d+) filter", detail)
    is_right = seen.filters == int(told[1]) if told else seen.filters > 0
    return "" if is_right else f"'{detail}', and the process has {seen.filters}"


def _claimed_namespaces(receipt: Receipt) -> Iterator[tuple[str, str]]:
    for kind in NAMESPACES:
        state = receipt.layers.get(f"{kind}_namespace")
        if state is not None and state.in_force:
            yield kind, "its own" if state.detail.startswith("its own") else "its box's"


def _about_limits(receipt: Receipt, seen: Seen) -> Iterator[tuple[str, str]]:
    for name in _LIMITS:
        claimed = receipt.limits[name].value
        yield name, "" if seen.limits.get(name) == claimed else f"{claimed}, and the kernel has {seen.limits.get(name)}"
    if receipt.layers["cgroup"].in_force and seen.memory_limit is not None:
        most = receipt.limits["memory"].value + ALLOWANCE
        yield "memory", "" if seen.memory_limit <= most else f"the group's is {seen.memory_limit}"


def has_control_groups() -> bool:
    """Whether an engine of this user would count calls in control groups."""
    return not isinstance(find_hierarchies(), str)
