"""Limits of whole calls where the kernel has no control group for them: look, add up, and name who is over.

Every process of a call descends from its guard, also an orphan, because the guard is the first process of their pid
namespace or their subreaper. So a table of parents, read from /proc a few times a second, gives each call its memory,
processor time and number of processes. It is coarser than a control group (a burst between two looks is only bounded by
the per-process limits), which is why the receipt says which of the two was in force.
"""

import os

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """What to look for: `memory` in bytes, `processes`, and how often; None when control groups do it."""

    def __init__(self, limits):
        self.is_on = bool(limits)
        self.interval = limits["interval"] if limits else None
        self._limits = limits or {}
        self._next_look = 0.0

    def over(self, children, now):
        """The calls over a limit, each with `killed_by` set to the limit's name."""
        if not self.is_on or now < self._next_look or not children:
            return []
        self._next_look = now + self.interval
        table = _processes()
        return [child for child in children if self._is_over(child, _tree(child.pid, table))]

    def _is_over(self, child, processes):
        memory = sum(process[1] for process in processes) * _PAGE
        if memory > self._limits["memory"]:
            child.killed_by = "memory"
        return child.killed_by is not None


def _processes():
    """{pid: (parent, resident pages that are its own)} of everything visible."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as stat, open("/proc/%s/statm" % name) as statm:
                parent = int(stat.read().rpartition(")")[2].split()[1])
                sizes = statm.read().split()
        except OSError:
            continue
        table[int(name)] = (parent, int(sizes[1]) - int(sizes[2]))
    return table


def _tree(root, table):
    children = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, pending = [], [root]
    while pending:
        pid = pending.pop()
        if pid in table:
            found.append(table[pid])
        pending += children.get(pid, ())
    return found
