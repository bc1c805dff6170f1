"""What the kernel counts for one control group, in either version, and where the hierarchies are mounted.

Reading asks for no right but to see the files, which everybody has. They stay open from the first time they are read
until `close`, because names cost more than reading. A counter that is not there, or whose group is gone, is None or 0
and never an exception: a group may be removed at any moment by whoever it belongs to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.protocols import Reading

Mount = tuple[str, Path, frozenset[str]]
"""(kind, where, options)"""

_CONTROLLERS: Final = ("memory", "pids", "cpuacct", "cpu")


def mounts() -> Iterator[Mount]:
    """Those of every mounted control group hierarchy."""
    with suppress(OSError), open("/proc/self/mountinfo") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(maxsplit=2)
            if kind in ("cgroup", "cgroup2"):
                yield kind, Path(before.split()[4]), frozenset(options.strip().split(","))


def groups_of(process: int | str = "self") -> dict[str, str]:
    """{controller, or "" for version 2: the group that process is in}; nothing when there is no such process."""
    groups = {}
    with suppress(OSError), open(f"/proc/{process}/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


_ALONE: Final = re.compile(rb"\A\s*([0-9]+)\s*\Z")


def _named(name: str) -> re.Pattern[bytes]:
    """A number on a line of its own, behind its name."""
    return re.compile(rb"^%s ([0-9]+)$" % name.encode(), re.MULTILINE)


_Gauge = tuple[str, str, re.Pattern[bytes]]
"""A controller, its file, and where in that the number is."""


@dataclass(frozen=True, slots=True)
class _Gauges:
    """Where what is told; `unit` is the processor time's, in seconds."""

    cpu: _Gauge
    unit: float
    memory_peak: _Gauge = ("memory", "memory.peak", _ALONE)
    processes_peak: _Gauge = ("pids", "pids.peak", _ALONE)
    kills: _Gauge = ("memory", "memory.events", _named("oom_kill"))
    refusals: _Gauge = ("pids", "pids.events", _named("max"))


_BY_VERSION: Final = {
    1: _Gauges(
        cpu=("cpuacct", "cpuacct.usage", _ALONE),
        unit=1e-9,
        memory_peak=("memory", "memory.max_usage_in_bytes", _ALONE),
        kills=("memory", "memory.oom_control", _named("oom_kill")),
    ),
    2: _Gauges(cpu=("cpu", "cpu.stat", _named("usage_usec")), unit=1e-6),
}


class Counters:
    """The counters of one group, each since the group was made; `folders` says where which controller keeps them."""

    def __init__(self, folders: Mapping[str, Path], *, version: int) -> None:
        gauges = _BY_VERSION[version]
        self._unit = gauges.unit
        told = (gauges.cpu, gauges.memory_peak, gauges.processes_peak, gauges.kills, gauges.refusals)
        self._gauges = [(_path(folders, controller, name), where) for controller, name, where in told]
        self._memory_peak = self._gauges[1][0]
        self._open: dict[str, int] = {}

    def read(self) -> Reading:
        """What they say now."""
        cpu, memory_peak, processes_peak, kills, refusals = [self._count(*gauge) for gauge in self._gauges]
        return Reading(self._seconds(cpu), memory_peak, processes_peak, kills or 0, refusals or 0)

    def cpu_s(self) -> float | None:
        """The processor time alone."""
        return self._seconds(self._count(*self._gauges[0]))

    def _seconds(self, cpu: int | None) -> float | None:
        return None if cpu is None else cpu * self._unit

    def reset_memory_peak(self) -> bool:
        """Let the peak begin at what is held now; False where this user or this kernel cannot.

        Since Linux 6.12 version 2 keeps a peak for each descriptor that was written to, so it must be this one.
        """
        try:
            os.pwrite(self._descriptor(self._memory_peak), b"0", 0)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the files; they are opened again when they are read again."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _count(self, path: str, where: re.Pattern[bytes]) -> int | None:
        """What a file says now; None where there is none, or no descriptor for it, or no number in it."""
        try:
            found = where.search(os.pread(self._open.get(path) or self._descriptor(path), 4096, 0))
        except OSError:
            return None
        return int(found[1]) if found else None

    def _descriptor(self, path: str) -> int:
        if path not in self._open:
            self._open[path] = _open_to_reset(path) if path == self._memory_peak else _open(path)
        return self._open[path]


def find_counters(groups: Mapping[str, str], *, part: str, mounted: Iterable[Mount]) -> Counters | None:
    """The counters of the group that has `part` in its name, among the groups a process is in and those above them.

    Drivers spell a container's group differently: `<id>`, `docker-<id>.scope`, `libpod-<id>.scope/container`. The part
    with the id is the one that has the limits. None where there is no such group, or it is not to be seen from here.
    """
    version = 1 if "memory" in groups else 2
    kind, folders = "cgroup" if version == 1 else "cgroup2", {}
    for its_kind, where, options in mounted:
        for controller in _CONTROLLERS if its_kind == kind else ():
            group = _as_far_as(part, groups.get(controller if version == 1 else "", ""))
            if group and (version == 2 or controller in options) and (where / group).is_dir():
                folders[controller] = where / group
    return Counters(folders, version=version) if folders else None


def _as_far_as(part: str, path: str) -> str:
    """The path up to the name that holds `part`; nothing without one, and where it leads out of what we see."""
    names = path.strip("/").split("/")
    own = next((number for number, name in enumerate(names) if part in name), None)
    return "" if own is None or ".." in names else "/".join(names[: own + 1])


def _path(folders: Mapping[str, Path], controller: str, name: str) -> str:
    return str(folders[controller] / name) if controller in folders else ""


def _open(path: str, mode: int = os.O_RDONLY) -> int:
    return os.open(path, mode | os.O_CLOEXEC)


def _open_to_reset(path: str) -> int:
    """For writing, too, where that is allowed; reading asks for less."""
    try:
        return _open(path, os.O_RDWR)
    except OSError:
        return _open(path)
