"""Limits of whole calls where the kernel has no control group for them: look, add up, and name who is over.

Every process of a call descends from its guard, also an orphan, because the guard is the first process of their pid
namespace or their subreaper. So a table of parents, read from /proc a few times a second, gives each call its memory,
processor time and number of processes. It is coarser than a control group (a burst between two looks is only bounded by
the per-process limits), which is why the receipt says which of the two was in force.

Memory is the call's own: what no file stands behind, in memory or swapped out, and the tables of its pages. A child of
the zygote also counts every such page of the zygote as resident, and those cost nothing until they are written to, so
what the zygote holds is taken off each process. Files that the tool wrote are bounded by the size of its workplace.

Buffers of sockets belong to no process. Each socket of a call, beyond the first few, counts as the most that it can
hold: `socket_bytes` says how much that is. The network namespace knows their number, also of those that no process has
open. A call that shares its network namespace has no `socket_bytes`, because the other sockets there are not its own.
"""

from __future__ import annotations

import os

from box.verification import read_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from zygote.child import Child

_TOLD_AS = {"cpu": "cpu_s", "memory": "max_rss"}
_MEMORY = ("RssAnon", "RssShmem", "VmPTE", "VmSwap", "HugetlbPages")
_FREE_SOCKETS = 32
# Places in /proc/<pid>/stat, counted from the state, which follows the command's closing bracket.
_PARENT, _TIMES, _THREADS = 1, slice(11, 15), 17


class Process:
    """What one look at one process found."""

    __slots__ = ("parent", "threads", "ticks")

    def __init__(self, *, parent: int, threads: int, ticks: int) -> None:
        self.parent = parent
        self.threads = threads
        self.ticks = ticks


class Watch:
    """What to look for: `memory` in bytes, `cpu` in seconds, `processes` with their threads; and how often."""

    def __init__(self, limits: dict[str, Any] | None) -> None:
        self.is_on = limits is not None
        self.interval: float = limits["interval"] if limits else 0
        self._limits = limits or {}
        self._next_look = 0.0

    def over(self, children: Iterable[Child], *, now: float) -> list[tuple[Child, str]]:
        """The calls that are over a limit, each with the limit's name; none when it is too early for another look. What
        was seen of a call is noted, until it is killed: after that there is ever less to see."""
        if not self.is_on or now < self._next_look:
            return []
        self._next_look = now + self.interval
        try:
            table = read_processes()
        except OSError:  # for want of descriptors; there will be another look
            return []
        found = []
        for child in children:
            used = usage(child.pid, table)
            sockets = _read("%d/net/sockstat" % child.pid)
            used["memory"] += socket_bytes(sockets, each=self._limits.get("socket_bytes", 0))
            if child.killed_by is None:
                child.seen = used
            limit = passed(used, self._of(child))
            if limit:
                found.append((child, limit))
        return found

    def passed_by(self, root: int) -> str | None:
        """Return the first limit that the process passes together with all that descend from it."""
        try:
            return passed(usage(root, read_processes()), self._limits)
        except OSError:  # for want of descriptors
            return None

    def _of(self, child: Child) -> dict[str, Any]:
        """The limits of a call, which may ask for less processor time than its box gives."""
        return self._limits if child.cpu is None else dict(self._limits, cpu=child.cpu)


def completed(end: dict[str, Any], seen: Mapping[str, float]) -> dict[str, Any]:
    """What is told of a call's end, where more was seen of it before: a guard knows of its largest process only, and of
    one that was killed along with its call the kernel tells what it used itself."""
    for kind, name in _TOLD_AS.items():
        if seen.get(kind, 0) > (end[name] or 0):
            end[name] = seen[kind]
    return end


def passed(used: Mapping[str, float], limits: Mapping[str, float]) -> str | None:
    """The first limit that is passed."""
    return next((name for name in used if used[name] > limits[name]), None)


def usage(root: int, table: Mapping[int, Process]) -> dict[str, float]:
    """What the process and all that descend from it use together."""
    pids = tree(root, table)
    zygote = own_bytes(_read("self/status"))
    return {
        "memory": sum(max(0, own_bytes(_read("%d/status" % pid)) - zygote) for pid in pids),
        "cpu": sum(table[pid].ticks for pid in pids) / os.sysconf("SC_CLK_TCK"),
        "processes": sum(table[pid].threads for pid in pids),
    }


def tree(root: int, table: Mapping[int, Process]) -> list[int]:
    """The process, if it is still there, and all that descend from it."""
    below: dict[int, list[int]] = {}
    for pid, process in table.items():
        below.setdefault(process.parent, []).append(pid)
    found: list[int] = []
    pending = [root]
    while pending:  # the table was not read at one moment, so it may even have a ring
        pid = pending.pop()
        if pid in table and pid not in found:
            found.append(pid)
        pending += below.pop(pid, ())
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process with one thread, zombies included."""
    try:
        return [int(child) for child in read_whole("/proc/%d/task/%d/children" % (pid, pid)).split()]
    except OSError:  # a kernel without that file, or a process that has ended
        return [each for each, process in read_processes().items() if process.parent == pid]


def children_seconds(pid: int) -> float:
    """Return the processor time of the children that a process has waited for."""
    fields = _read("%d/stat" % pid).rpartition(")")[2].split()[_TIMES.start + 2 : _TIMES.stop]
    return sum(int(ticks) for ticks in fields) / os.sysconf("SC_CLK_TCK")


def read_processes() -> dict[int, Process]:
    """Every process that this one can see; none where there is no /proc. OSError when there is nothing to look with."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    stats = {int(name): _read(name + "/stat") for name in names if name.isdigit()}
    return {pid: parse_stat(text) for pid, text in stats.items() if text}


def parse_stat(text: str) -> Process:
    """/proc/<pid>/stat: time of the process, of its threads, and of the children that it has waited for."""
    fields = text.rpartition(")")[2].split()
    times = fields[_TIMES]
    return Process(parent=int(fields[_PARENT]), threads=int(fields[_THREADS]), ticks=sum(int(time) for time in times))


def own_bytes(text: str) -> int:
    """/proc/<pid>/status: the memory that no file stands behind, and its tables. An ended process holds none."""
    kibibytes = 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in _MEMORY:
            kibibytes += int(value.split()[0])
    return kibibytes * 1024


def socket_bytes(text: str, *, each: int) -> int:
    """/proc/<pid>/net/sockstat: the most that all sockets of the namespace but the first few can hold."""
    words = text.split()[:3]
    sockets = int(words[2]) if words[:2] == ["sockets:", "used"] else 0
    return max(0, sockets - _FREE_SOCKETS) * each


def _read(name: str) -> str:
    """A file of /proc; empty when its process is gone."""
    try:
        with open("/proc/" + name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
