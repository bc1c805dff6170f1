"""The kernel's counters of a control group, in either version, and the mounts of the hierarchies.

Every user may read the counters. The files stay open from the first reading until `close`, because opening a file costs
more than reading it. A missing counter, or one whose group is gone, is None or 0 and never an exception: the owner of a
group may remove it at any moment.
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
    """Yield the mounts of control group hierarchies."""
    with suppress(OSError), open("/proc/self/mountinfo") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(maxsplit=2)
            if kind in ("cgroup", "cgroup2"):
                yield kind, Path(before.split()[4]), frozenset(options.strip().split(","))


def groups_of(process: int | str = "self") -> dict[str, str]:
    """Return the process's group for each controller ("" for version 2); nothing if the process has ended."""
    groups = {}
    with suppress(OSError), open(f"/proc/{process}/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


_ALONE: Final = re.compile(rb"\A\s*([0-9]+)\s*\Z")


def _named(name: str) -> re.Pattern[bytes]:
    """Return the pattern of a line with that name and a number."""
    return re.compile(rb"^%s ([0-9]+)$" % name.encode(), re.MULTILINE)


_Gauge = tuple[str, str, re.Pattern[bytes]]
"""A controller, its file, and the pattern of the number in the file."""


@dataclass(frozen=True, slots=True)
class _Gauges:
    """The files of the counters; `unit` is the processor time's, in seconds."""

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
    """The counters of a group since its creation; `folders` has the folder of each controller."""

    def __init__(self, folders: Mapping[str, Path], *, version: int) -> None:
        gauges = _BY_VERSION[version]
        self._unit = gauges.unit
        used = (gauges.cpu, gauges.memory_peak, gauges.processes_peak, gauges.kills, gauges.refusals)
        self._gauges = [(_path(folders, controller, name), where) for controller, name, where in used]
        self._memory_peak = self._gauges[1][0]
        self._open: dict[str, int] = {}

    def read(self) -> Reading:
        """Return the present counters."""
        cpu, memory_peak, processes_peak, kills, refusals = [self._count(*gauge) for gauge in self._gauges]
        return Reading(self._seconds(cpu), memory_peak, processes_peak, kills or 0, refusals or 0)

    def cpu_s(self) -> float | None:
        """Return the processor time alone."""
        return self._seconds(self._count(*self._gauges[0]))

    def _seconds(self, cpu: int | None) -> float | None:
        return None if cpu is None else cpu * self._unit

    def reset_memory_peak(self) -> bool:
        """Reset the peak to the present memory; return False if this user or this kernel cannot."""
        # Since Linux 6.12, version 2 keeps a peak for each descriptor that was written to, so write to the one that
        # `read` uses.
        try:
            os.pwrite(self._descriptor(self._memory_peak), b"0", 0)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the files; the next reading opens them again."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _count(self, path: str, where: re.Pattern[bytes]) -> int | None:
        """Return the number in a file; None without a file, a free descriptor or a number."""
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
    """Return the counters of the group with `part` in its name, among a process's groups and their parents.

    Drivers name a container's group differently: `<id>`, `docker-<id>.scope`, `libpod-<id>.scope/container`. The group
    with the id has the limits. Returns None if no such group is visible from here.
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
    """Return the path up to the name with `part`; empty without one, or if the path leaves our namespace."""
    names = path.strip("/").split("/")
    own = next((number for number, name in enumerate(names) if part in name), None)
    return "" if own is None or ".." in names else "/".join(names[: own + 1])


def _path(folders: Mapping[str, Path], controller: str, name: str) -> str:
    return str(folders[controller] / name) if controller in folders else ""


def _open(path: str, mode: int = os.O_RDONLY) -> int:
    return os.open(path, mode | os.O_CLOEXEC)


def _open_to_reset(path: str) -> int:
    # Resetting needs the right to write; reading does not.
    try:
        return _open(path, os.O_RDWR)
    except OSError:
        return _open(path)
