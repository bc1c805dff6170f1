"""Slots: control groups that hold one call at a time, and tell what it used.

A slot serves many calls, because making a group costs more than entering one. Counters that only grow are read before
and after; a peak has to be set back. What cannot be set back (the highest number of processes once it was more than a
guard and its tool, any peak of version 2) makes the slot be replaced after the call that moved it.

The counters' files stay open from the first time they are read, which is when a child is put into the slot, until the
call is over; an idle slot holds none.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Final

from sandbox.backends.cgroups import Counters
from sandbox.backends.subprocess.groups import GUARD_PROCESSES, Group
from sandbox.protocols import Reading

_RESTING_PROCESSES: Final = 2


class GroupSlot:
    """One group as a place for one call at a time."""

    def __init__(self, id: int, group: Group) -> None:
        self.id = id
        self._group = group
        folders = {controller: group.folder(controller) for controller in group.hierarchies.parents}
        self._counters = Counters(folders, version=group.hierarchies.version)
        self._before = Reading(cpu_s=0.0)
        self._now = self._before

    def open_cgroup_fds(self) -> list[int]:
        """What a child writes "0" into to enter; whoever gets them closes them.

        A child has one thread. Moving that alone (`tasks`, which only version 1 has for us) spares the kernel the lock
        over all threads of the machine, which can take it 10 ms. All of them are opened, or none: the group may be
        going with its box right now.
        """
        doors: list[int] = []
        with ExitStack() as opened:
            for door in self._group.doors():
                doors.append(os.open(door, os.O_WRONLY | os.O_CLOEXEC))
                opened.callback(os.close, doors[-1])
            opened.pop_all()
        return doors

    def read(self) -> Reading:
        """What has been used since the last `renew`."""
        self._now = cpu_s, memory_peak, processes_peak, kills, refusals, _ = self._counters.read()
        cpu_before, _, _, kills_before, refusals_before, _ = self._before
        return Reading(
            None if cpu_s is None else cpu_s - (cpu_before or 0.0),
            memory_peak,
            None if processes_peak is None else max(processes_peak - GUARD_PROCESSES, 1),
            max(kills - kills_before, 0),
            max(refusals - refusals_before, 0),
        )

    def renew(self) -> bool:
        """Start counting anew from what was last read; False when a counter cannot be set back."""
        try:
            return self._can_be_renewed() and self._counters.reset_memory_peak()
        finally:
            self._before = self._now
            self._counters.close()

    def close(self) -> None:
        """Let go of it; what cannot be removed yet goes with the box."""
        self._counters.close()
        self._group.remove()

    def _can_be_renewed(self) -> bool:
        peak = self._now.processes_peak
        return self._group.hierarchies.version == 1 and peak is not None and peak <= _RESTING_PROCESSES
