"""Slots: control groups that hold one call at a time and measure it.

A slot serves many calls, because creating a group costs more than entering one. The slot reads counters that only grow
before and after a call, and resets peaks. A call that moves a peak that cannot be reset (the number of processes above
a guard and its tool, any peak of version 2) makes the slot unfit, and the box replaces it.

The files of the counters are open from the moment a child enters the slot until its call is over; an idle slot has no
open files.
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
    """A group that holds one call at a time."""

    def __init__(self, id: int, group: Group) -> None:
        self.id = id
        self._group = group
        folders = {controller: group.folder(controller) for controller in group.hierarchies.parents}
        self._counters = Counters(folders, version=group.hierarchies.version)
        self._before = Reading(cpu_s=0.0)
        self._now = self._before

    def open_cgroup_fds(self) -> list[int]:
        """Open the files that a child writes "0" to in order to enter the slot; the caller closes them."""
        # A child has one thread. Moving a single thread (`tasks`, in version 1) spares the kernel a lock over all
        # threads of the machine, which can take 10 ms. Open all files or none: another task may be removing the group.
        opened: list[int] = []
        with ExitStack() as stack:
            for file in self._group.entry_files():
                opened.append(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, opened[-1])
            stack.pop_all()
        return opened

    def read(self) -> Reading:
        """Return the usage since the last `renew`."""
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
        """Start counting again at the last reading; return False if a counter cannot be reset."""
        try:
            return self._can_be_renewed() and self._counters.reset_memory_peak()
        finally:
            self._before = self._now
            self._counters.close()

    def close(self) -> None:
        """Remove the group; the box removes a group whose processes are still dying."""
        self._counters.close()
        self._group.remove()

    def _can_be_renewed(self) -> bool:
        peak = self._now.processes_peak
        return self._group.hierarchies.version == 1 and peak is not None and peak <= _RESTING_PROCESSES
