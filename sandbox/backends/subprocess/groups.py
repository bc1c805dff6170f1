"""Control groups: limits and measures of whole trees of processes, kept by the kernel outside of the box.

Two layouts are found in the field, and both are used where this user may write to them:

* version 1, one hierarchy per controller: ours lie below the group the engine is in;
* version 2, one hierarchy: ours lie in the nearest group above the engine's own that this user may change and that
  already passes the controllers on, so that nothing existing has to be moved or reconfigured.

The groups of one engine, named by its process so that a later engine can prove the owner dead::

    sandbox-<pid>-<start time>/
        <box>/
            zygote/     the runner and what it preloads
            <slot>/     one call at a time

A slot serves many calls, because making a group costs more than entering one. What cannot be set back to zero (the
highest number of processes, version 2's peaks) makes the slot be replaced after a call that moved it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from sandbox.policy import Limits
from sandbox.ports import Reading

_PREFIX: Final = "sandbox-"
_NEEDED: Final = ("memory", "pids")
_USEFUL: Final = ("memory", "pids", "cpuacct", "cpu")
_GUARD_BYTES: Final = 4 << 20
_GUARD_PROCESSES: Final = 1
_PERIOD_US: Final = 100_000
_RESTING_PROCESSES: Final = 2
"""A guard and its tool: more than these and the group's peak no longer tells about the next call."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where this engine's groups go: a parent folder per controller (version 1) or one for all (version 2)."""

    version: int
    parents: Mapping[str, Path]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each parent once."""
        return tuple(dict.fromkeys(self.parents.values()))


def find_hierarchies() -> Hierarchies | str:
    """The writable hierarchies, or the reason why there are none."""
    mounts = list(_mounts())
    own = _own_groups()
    found = _version_1(mounts, own)
    if all(controller in found for controller in _NEEDED):
        return Hierarchies(1, found)
    parent = _version_2(mounts, own)
    if parent is not None:
        return Hierarchies(2, dict.fromkeys(_USEFUL, parent))
    return "no control group with memory and pids is writable for this user"


def _mounts() -> Iterator[tuple[str, Path, frozenset[str]]]:
    """(kind, where, options) of every mounted control group hierarchy."""
    with suppress(OSError), open("/proc/self/mountinfo") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(maxsplit=2)
            if kind in ("cgroup", "cgroup2"):
                yield kind, Path(before.split()[4]), frozenset(options.strip().split(","))


def _own_groups() -> dict[str, str]:
    """{controller, or "" for version 2: the group this process is in}."""
    groups = {}
    with suppress(OSError), open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _version_1(mounts: list[tuple[str, Path, frozenset[str]]], own: Mapping[str, str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for kind, where, options in mounts:
        for controller in _USEFUL:
            folder = where / own.get(controller, "/").lstrip("/")
            if kind == "cgroup" and controller in options and os.access(folder, os.W_OK):
                found[controller] = folder
    return found


def _version_2(mounts: list[tuple[str, Path, frozenset[str]]], own: Mapping[str, str]) -> Path | None:
    for kind, where, _ in mounts:
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


def owner_name() -> str:
    """The name of this process's groups: pid and start time, which no other process ever shares."""
    return f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}"


def _start_time(pid: int) -> str:
    return str(int(psutil.Process(pid).create_time() * 1000))


def remove_orphans(hierarchies: Hierarchies) -> None:
    """Remove the groups of engines that are dead, with whatever still runs in them."""
    for parent in hierarchies.folders:
        for folder in parent.glob(f"{_PREFIX}*-*"):
            pid, _, start = folder.name.removeprefix(_PREFIX).partition("-")
            if pid.isdigit() and not _is_alive(int(pid), start):
                remove(folder)


def _is_alive(pid: int, start: str) -> bool:
    try:
        return _start_time(pid) == start
    except psutil.NoSuchProcess:
        return False


def remove(folder: Path) -> bool:
    """Kill what is in a tree of groups and remove it; False while something in it is still dying."""
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
    """One control group, in all hierarchies at once."""

    hierarchies: Hierarchies
    path: str

    def folder(self, controller: str) -> Path:
        """Where the controller keeps its files of this group."""
        return self.hierarchies.parents[controller] / self.path

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each folder once; entering the group means entering all."""
        return tuple(parent / self.path for parent in self.hierarchies.folders)

    def create(self, *, passes_on: bool = False) -> None:
        """Make it; with `passes_on` it is only there to hold others."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            if passes_on and self.hierarchies.version == 2:
                offered = (folder / "cgroup.controllers").read_text().split()
                wanted = " ".join(f"+{name}" for name in ("memory", "pids", "cpu") if name in offered)
                (folder / "cgroup.subtree_control").write_text(wanted)

    def enter(self, pid: int) -> None:
        """Move a process in."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, limits: Limits) -> None:
        """Put the limits of one call on it."""
        memory, processes = limits.memory + _GUARD_BYTES, limits.processes + _GUARD_PROCESSES
        if self.hierarchies.version == 1:
            _write(self.folder("memory") / "memory.limit_in_bytes", memory)
            with suppress(OSError):
                _write(self.folder("memory") / "memory.memsw.limit_in_bytes", memory)
            _write(self.folder("pids") / "pids.max", processes)
        else:
            _write(self.folder("memory") / "memory.max", memory)
            with suppress(OSError):
                _write(self.folder("memory") / "memory.swap.max", 0)
            _write(self.folder("pids") / "pids.max", processes)
        self._limit_cpus(limits.cpus)

    def _limit_cpus(self, cpus: int) -> None:
        if cpus >= (os.cpu_count() or 1) or "cpu" not in self.hierarchies.parents:
            return
        with suppress(OSError):
            if self.hierarchies.version == 1:
                _write(self.folder("cpu") / "cpu.cfs_quota_us", cpus * _PERIOD_US)
            else:
                (self.folder("cpu") / "cpu.max").write_text(f"{cpus * _PERIOD_US} {_PERIOD_US}")

    def memory_bytes(self) -> int:
        """What it and the groups below it hold now."""
        name = "memory.usage_in_bytes" if self.hierarchies.version == 1 else "memory.current"
        return _number(self.folder("memory") / name) or 0

    def remove(self) -> bool:
        """Kill what is in it and remove it; False while something in it is still dying."""
        return all([remove(folder) for folder in self.folders])


class GroupSlot:
    """One group as a place for one call at a time."""

    def __init__(self, id: int, group: Group) -> None:
        self.id = id
        self._group = group
        self._before = Reading(cpu_s=0.0)

    def open_doors(self) -> list[int]:
        """What a child writes "0" into to enter; whoever gets them closes them."""
        return [os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in self._group.folders]

    def read(self) -> Reading:
        """What has been used since the last `renew`."""
        now = self._totals()
        before = self._before
        return Reading(
            cpu_s=None if now.cpu_s is None else round(now.cpu_s - (before.cpu_s or 0.0), 6),
            memory_bytes=now.memory_bytes,
            memory_peak_bytes=now.memory_peak_bytes,
            processes_peak=None if now.processes_peak is None else max(now.processes_peak - _GUARD_PROCESSES, 1),
            out_of_memory_kills=now.out_of_memory_kills - before.out_of_memory_kills,
            refused_forks=now.refused_forks - before.refused_forks,
        )

    def renew(self) -> bool:
        """Set the counters back; False when they cannot be."""
        if self._group.hierarchies.version != 1:
            return False
        now = self._totals()
        if now.processes_peak is None or now.processes_peak > _RESTING_PROCESSES:
            return False
        with suppress(OSError):
            _write(self._group.folder("memory") / "memory.max_usage_in_bytes", 0)
            self._before = now
            return True
        return False

    def close(self) -> None:
        """Let go of it; what cannot be removed yet goes with the box."""
        self._group.remove()

    def _totals(self) -> Reading:
        return _read_version_1(self._group) if self._group.hierarchies.version == 1 else _read_version_2(self._group)


def _read_version_1(group: Group) -> Reading:
    memory, pids = group.folder("memory"), group.folder("pids")
    return Reading(
        cpu_s=_nanoseconds(group.folder("cpuacct") / "cpuacct.usage")
        if "cpuacct" in group.hierarchies.parents
        else None,
        memory_bytes=_number(memory / "memory.usage_in_bytes"),
        memory_peak_bytes=_number(memory / "memory.max_usage_in_bytes"),
        processes_peak=_number(pids / "pids.peak"),
        out_of_memory_kills=_named(memory / "memory.oom_control", "oom_kill"),
        refused_forks=_named(pids / "pids.events", "max"),
    )


def _read_version_2(group: Group) -> Reading:
    folder = group.folder("memory")
    return Reading(
        cpu_s=_named(folder / "cpu.stat", "usage_usec") / 1e6,
        memory_bytes=_number(folder / "memory.current"),
        memory_peak_bytes=_number(folder / "memory.peak"),
        processes_peak=_number(folder / "pids.peak"),
        out_of_memory_kills=_named(folder / "memory.events", "oom_kill"),
        refused_forks=_named(folder / "pids.events", "max"),
    )


def _write(path: Path, value: int) -> None:
    path.write_text(str(value))


def _text(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096).decode()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.strip().isdigit() else None


def _nanoseconds(path: Path) -> float | None:
    number = _number(path)
    return None if number is None else number / 1e9


def _named(path: Path, name: str) -> int:
    """The number on the line that begins with `name`; 0 where there is none."""
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
