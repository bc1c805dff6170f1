"""Control groups: limits and measures of whole process trees, which the kernel keeps outside of the box.

The engine uses either version of control groups, if this user may write to them:

* version 1 has one hierarchy per controller; the engine's groups lie below the group that the engine is in;
* version 2 has one hierarchy; the engine's groups lie in the nearest group above its own that this user may change and
  that already passes the controllers on, so that the engine moves and reconfigures no existing group.

The groups of one engine carry the name of its process, so that a later engine can prove the owner dead (ownership.py)::

    sandbox-<pid>-<start time>-<pid namespace>-<engine>/
        <box>/
            zygote/     the runner
            template/   the process that imports packages ahead of calls, and forks the calls' processes
            <slot>/     one call at a time
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.backends.cgroups import groups_of, mounts
from sandbox.backends.ownership import GROUP_PREFIX, orphaned_groups
from sandbox.policy import Limits

_NEEDED: Final = ("memory", "pids")
_USEFUL: Final = ("memory", "pids", "cpuacct", "cpu")
_GUARD_BYTES: Final = 4 << 20
GUARD_PROCESSES: Final = 1
"""The guard of a call, which counts in its group and is not the tool's."""
_PERIOD_US: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of the files, and the format of the quota."""

    memory: str
    swap: str
    swap_includes_memory: bool
    usage: str
    sockets: str | None
    quota: str
    quota_text: str


_NAMES: Final = {
    1: _Names(
        memory="memory.limit_in_bytes",
        swap="memory.memsw.limit_in_bytes",
        swap_includes_memory=True,
        usage="memory.usage_in_bytes",
        sockets="memory.kmem.tcp.limit_in_bytes",  # TCP and UDP; the kernel counts sockets only if they are limited
        quota="cpu.cfs_quota_us",
        quota_text="{}",
    ),
    2: _Names(
        memory="memory.max",
        swap="memory.swap.max",
        swap_includes_memory=False,
        usage="memory.current",
        sockets=None,  # counted with the rest
        quota="cpu.max",
        quota_text="{} {}",
    ),
}


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The parents of this engine's groups: a folder per controller (version 1) or one for all (version 2)."""

    version: int
    parents: Mapping[str, Path]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The distinct parents."""
        return tuple(dict.fromkeys(self.parents.values()))

    def without_quota(self) -> Hierarchies:
        """Return the hierarchies for boxes that may use every processor: one fewer to enter."""
        return Hierarchies(self.version, {name: parent for name, parent in self.parents.items() if name != "cpu"})


def find_hierarchies() -> Hierarchies | str:
    """Return the writable hierarchies, or the reason why there are none."""
    mounted = list(mounts())
    own = groups_of()
    found = _version_1(mounted, own)
    if all(controller in found for controller in _NEEDED):
        return Hierarchies(1, found)
    parent = _version_2(mounted, own)
    if parent is not None:
        return Hierarchies(2, dict.fromkeys(_USEFUL, parent))
    return "no control group with memory and pids is writable for this user"


def _version_1(mounted: list[tuple[str, Path, frozenset[str]]], own: Mapping[str, str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for kind, where, options in mounted:
        for controller in _USEFUL:
            folder = where / own.get(controller, "/").lstrip("/")
            if kind == "cgroup" and controller in options and os.access(folder, os.W_OK):
                found[controller] = folder
    return found


def _version_2(mounted: list[tuple[str, Path, frozenset[str]]], own: Mapping[str, str]) -> Path | None:
    for kind, where, _ in mounted:
        if kind != "cgroup2":
            continue
        folder = where / own.get("", "/").lstrip("/")
        while folder.is_relative_to(where):
            if _passes_on(folder):
                return folder
            folder = folder.parent
    return None


def _passes_on(folder: Path) -> bool:
    with suppress(OSError):
        passed = (folder / "cgroup.subtree_control").read_text().split()
        return all(name in passed for name in _NEEDED) and os.access(folder / "cgroup.procs", os.W_OK)
    return False


def remove_orphans(hierarchies: Hierarchies) -> None:
    """Remove the groups of engines that are proved dead, and kill the processes in them."""
    for parent in hierarchies.folders:
        for folder in orphaned_groups(parent.glob(f"{GROUP_PREFIX}*")):
            remove(folder)


def remove(folder: Path) -> bool:
    """Kill the processes in a tree of groups and remove it; return False while a process is still dying."""
    for place, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            for pid in Path(place, "cgroup.procs").read_text().split():
                if int(pid):
                    os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            os.rmdir(place)
    return not folder.exists()


@dataclass(frozen=True, slots=True)
class Group:
    """A control group, in all hierarchies at once."""

    hierarchies: Hierarchies
    path: str

    def below(self, name: str) -> Group:
        """Return a group inside this one."""
        return Group(self.hierarchies, f"{self.path}/{name}")

    def above(self) -> Group:
        """Return the group that contains this one."""
        return Group(self.hierarchies, self.path.rpartition("/")[0])

    def folder(self, controller: str) -> Path:
        """Return the folder of this group in the controller's hierarchy."""
        return self.hierarchies.parents[controller] / self.path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The distinct folders; a process enters the group by entering all of them."""
        return tuple(parent / self.path for parent in self.hierarchies.folders)

    def create(self, *, passes_on: bool = False) -> None:
        """Create the group; with `passes_on`, as a parent of other groups."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            if passes_on and self.hierarchies.version == 2:
                offered = (folder / "cgroup.controllers").read_text().split()
                wanted = " ".join(f"+{name}" for name in ("memory", "pids", "cpu") if name in offered)
                (folder / "cgroup.subtree_control").write_text(wanted)

    def entry_files(self) -> list[str]:
        """Return the files that a process with a single thread writes "0" to, in order to enter the group."""
        name = "tasks" if self.hierarchies.version == 1 else "cgroup.procs"
        return [str(folder / name) for folder in self.folders]

    def limit(self, limits: Limits) -> None:
        """Limit the group like one call."""
        memory, processes = limits.memory + _GUARD_BYTES, limits.processes + GUARD_PROCESSES
        names = _NAMES[self.hierarchies.version]
        _write(self.folder("memory") / names.memory, str(memory))
        with suppress(OSError):  # this kernel does not account for swap
            _write(self.folder("memory") / names.swap, str(memory) if names.swap_includes_memory else "0")
        if names.sockets:
            with suppress(OSError):  # this kernel has no such account
                _write(self.folder("memory") / names.sockets, str(limits.memory))
        _write(self.folder("pids") / "pids.max", str(processes))
        if "cpu" in self.hierarchies.parents:
            with suppress(OSError):  # version 2 may pass on everything but this controller
                _write(self.folder("cpu") / names.quota, names.quota_text.format(limits.cpus * _PERIOD_US, _PERIOD_US))

    def in_force(self) -> dict[str, int]:
        """Return the limits that the kernel enforces, without the guard's share."""
        memory = (self.folder("memory") / _NAMES[self.hierarchies.version].memory).read_text()
        processes = (self.folder("pids") / "pids.max").read_text()
        return {"memory": int(memory) - _GUARD_BYTES, "processes": int(processes) - GUARD_PROCESSES}

    def quota_cpus(self) -> int | None:
        """Return the number of processors in the kernel's quota; None without a quota."""
        name = _NAMES[self.hierarchies.version].quota
        microseconds = _number(self.folder("cpu") / name) if "cpu" in self.hierarchies.parents else None
        return None if microseconds is None else microseconds // _PERIOD_US

    def limits_sockets(self) -> bool:
        """Return whether the kernel limits socket buffers, too."""
        name = _NAMES[self.hierarchies.version].sockets
        limit = 0 if name is None else _number(self.folder("memory") / name)
        return limit is not None and limit <= self.in_force()["memory"]

    def memory_bytes(self) -> int:
        """Return the memory that the group and the groups below it hold now."""
        try:
            return int((self.folder("memory") / _NAMES[self.hierarchies.version].usage).read_text())
        except OSError:
            return 0

    def remove(self) -> bool:
        """Kill the processes in the group and remove it; return False while a process is still dying."""
        gone = [remove(folder) for folder in self.folders]
        return all(gone)


def _number(path: Path) -> int | None:
    """Return the number at the start of a file; None if the file is missing or says "no limit"."""
    try:
        first = path.read_text().split()[0]
    except OSError:
        return None
    return int(first) if first.isdigit() else None


def _write(path: Path, text: str) -> None:
    path.write_text(text)
