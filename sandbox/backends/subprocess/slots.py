"""Slots: control groups that hold one call at a time, and tell what it used.

A slot serves many calls, because making a group costs more than entering one. Counters that only grow are read before
and after; a peak has to be set back. What cannot be set back (the highest number of processes once it was more than a
guard and its tool, any peak of version 2) makes the slot be replaced after the call that moved it.

The files are read on the path of every call, so their names are put together once. They stay open from the first time
they are read until the call is over; an idle slot holds none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandbox.backends.subprocess.groups import GUARD_PROCESSES, Group
from sandbox.ports import Reading

_RESTING_PROCESSES: Final = 2


@dataclass(frozen=True, slots=True)
class _Counters:
    """Which file, of which controller, tells what; `unit` is the processor time's, in seconds."""

    cpu: tuple[str, str]
    cpu_name: str | None
    unit: float
    memory_peak: tuple[str, str] = ("memory", "memory.peak")
    processes_peak: tuple[str, str] = ("pids", "pids.peak")
    kills: tuple[str, str] = ("memory", "memory.events")
    refusals: tuple[str, str] = ("pids", "pids.events")


_BY_VERSION: Final = {
    1: _Counters(
        cpu=("cpuacct", "cpuacct.usage"),
        cpu_name=None,
        unit=1e-9,
        memory_peak=("memory", "memory.max_usage_in_bytes"),
        kills=("memory", "memory.oom_control"),
    ),
    2: _Counters(cpu=("cpu", "cpu.stat"), cpu_name="usage_usec", unit=1e-6),
}


class GroupSlot:
    """One group as a place for one call at a time."""

    def __init__(self, id: int, group: Group) -> None:
        self.id = id
        self._group = group
        self._counters = _BY_VERSION[group.hierarchies.version]
        self._cpu = self._path(self._counters.cpu)
        self._memory_peak = self._path(self._counters.memory_peak)
        self._processes_peak = self._path(self._counters.processes_peak)
        self._kills = self._path(self._counters.kills)
        self._refusals = self._path(self._counters.refusals)
        self._files: dict[str, int] = {}
        self._before = Reading(cpu_s=0.0)
        self._now = self._before

    def open_doors(self) -> list[int]:
        """What a child writes "0" into to enter; whoever gets them closes them.

        A child has one thread. Moving that alone (`tasks`, which only version 1 has for us) spares the kernel the lock
        over all threads of the machine, which can take it 10 ms.
        """
        return [os.open(door, os.O_WRONLY | os.O_CLOEXEC) for door in self._group.doors()]

    def read(self) -> Reading:
        """What has been used since the last `renew`."""
        now, before = self._totals(), self._before
        self._now = now
        return Reading(
            cpu_s=None if now.cpu_s is None else round(now.cpu_s - (before.cpu_s or 0.0), 6),
            memory_peak_bytes=now.memory_peak_bytes,
            processes_peak=None if now.processes_peak is None else max(now.processes_peak - GUARD_PROCESSES, 1),
            out_of_memory_kills=max(now.out_of_memory_kills - before.out_of_memory_kills, 0),
            refused_forks=max(now.refused_forks - before.refused_forks, 0),
        )

    def renew(self) -> bool:
        """Start counting anew from what was last read; False when a counter cannot be set back."""
        self._close_files()
        peak = self._now.processes_peak
        if self._group.hierarchies.version != 1 or peak is None or peak > _RESTING_PROCESSES:
            return False
        try:
            _write_zero(self._memory_peak)
        except OSError:
            return False
        self._before = self._now
        return True

    def close(self) -> None:
        """Let go of it; what cannot be removed yet goes with the box."""
        self._close_files()
        self._group.remove()

    def _path(self, place: tuple[str, str]) -> str:
        controller, name = place
        return str(self._group.folder(controller) / name) if controller in self._group.hierarchies.parents else ""

    def _totals(self) -> Reading:
        cpu = _number(self._text(self._cpu), self._counters.cpu_name)
        return Reading(
            cpu_s=None if cpu is None else cpu * self._counters.unit,
            memory_peak_bytes=_number(self._text(self._memory_peak)),
            processes_peak=_number(self._text(self._processes_peak)),
            out_of_memory_kills=_number(self._text(self._kills), "oom_kill") or 0,
            refused_forks=_number(self._text(self._refusals), "max") or 0,
        )

    def _text(self, path: str) -> str:
        """What a file says now; nothing where there is none, or no descriptor for it."""
        try:
            if path not in self._files:
                self._files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._files[path], 4096, 0).decode("ascii", "replace")
        except OSError:
            return ""

    def _close_files(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


def _number(text: str, name: str | None = None) -> int | None:
    """The number that a text is, or the one on its line that begins with `name`; None where there is none."""
    if name is not None:
        start = text.find(f"{name} ")
        text = text[start + len(name) :].partition("\n")[0] if start >= 0 else ""
    return int(text) if text.strip().isdigit() else None


def _write_zero(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)
