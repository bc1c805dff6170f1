"""The processes of calls, as /proc shows them: their usage, limits where no control group counts, and their end.

Every process of a call descends from its guard, orphans included, because the guard is the first process of their pid
namespace or their subreaper. So a table of parents, read from /proc a few times a second, gives each call its memory,
processor time and number of processes. Such a watch is coarser than a control group (only the per-process limits bound
a burst between two looks), which is why the receipt says which of the two was in force.

Memory is the call's own: the pages without a file behind them, in memory or swapped out, and the page tables. A child
of the zygote also counts every such page of the zygote as resident, and those cost nothing until they are written to,
so the zygote's own amount is subtracted from each process. The size of the workplace bounds files that the tool wrote.

Buffers of sockets belong to no process. Each socket of a call, beyond the first few, counts as the most that it can
hold: `socket_bytes` says how much that is. The network namespace knows their number, including those that no process
has open. A call that shares its network namespace has no `socket_bytes`, because the other sockets there are not its
own.

Where no pid namespace ends all processes of a call at once, the same table finds them: a guard, and behind it the
zygote in case a tool kills its guard, adopts the orphans among its descendants, and kills until none is left. Without
/proc, only the processes in the tool's own group are found.
"""

from __future__ import annotations

import os
import time

from box.verification import read_whole
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from typing import Any

    from zygote.child import Child

_FIELDS_OF_END = {"cpu": "cpu_s", "memory": "max_rss"}
_MEMORY = ("RssAnon", "RssShmem", "VmPTE", "VmSwap", "HugetlbPages")
_FREE_SOCKETS = 32
_PATIENCE_S = 2.0
_PAUSE_S = 0.001
# Places in /proc/<pid>/stat, counted from the state, which follows the command's closing bracket.
_PARENT, _TIMES, _THREADS = 1, slice(11, 15), 17


class ProcessStat:
    """A line of the process table."""

    __slots__ = ("parent", "threads", "ticks")

    def __init__(self, *, parent: int, threads: int, ticks: int) -> None:
        self.parent = parent
        self.threads = threads
        self.ticks = ticks


class LimitWatch:
    """Limits to watch: `memory` in bytes, `cpu` in seconds, `processes` with their threads; and how often to look."""

    def __init__(self, limits: dict[str, Any] | None) -> None:
        self.is_on = limits is not None
        self.interval: float = limits["interval"] if limits else 0
        self._limits = limits or {}
        self._next_look = 0.0

    def over(self, children: Iterable[Child], *, now: float) -> list[tuple[Child, str]]:
        """Return the calls that are over a limit, each with the limit's name; none when another look is too early.

        Each look notes the usage of a call until the call is killed, because a dying call shows ever less.
        """
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
            limit = first_passed(used, self._of(child))
            if limit:
                found.append((child, limit))
        return found

    def passed_by(self, root: int) -> str | None:
        """Return the first limit that the process passes together with all that descend from it."""
        try:
            return first_passed(usage(root, read_processes()), self._limits)
        except OSError:  # for want of descriptors
            return None

    def _of(self, child: Child) -> dict[str, Any]:
        """Return the limits of a call, which may ask for less processor time than its box gives."""
        return self._limits if child.cpu is None else dict(self._limits, cpu=child.cpu)


def complete_usage(end: dict[str, Any], seen: Mapping[str, float]) -> dict[str, Any]:
    """Raise the usage in the last record of a call to the usage that was seen earlier.

    A guard only knows its largest process, and of a guard that was killed with its call the kernel reports no more.
    """
    for kind, name in _FIELDS_OF_END.items():
        if seen.get(kind, 0) > (end[name] or 0):
            end[name] = seen[kind]
    return end


def first_passed(used: Mapping[str, float], limits: Mapping[str, float]) -> str | None:
    """Return the first limit that is passed."""
    return next((name for name in used if used[name] > limits[name]), None)


def usage(root: int, table: Mapping[int, ProcessStat]) -> dict[str, float]:
    """Return the usage of a process together with all its descendants."""
    pids = tree(root, table)
    zygote = own_bytes(_read("self/status"))
    return {
        "memory": sum(max(0, own_bytes(_read("%d/status" % pid)) - zygote) for pid in pids),
        "cpu": sum(table[pid].ticks for pid in pids) / os.sysconf("SC_CLK_TCK"),
        "processes": sum(table[pid].threads for pid in pids),
    }


def tree(root: int, table: Mapping[int, ProcessStat]) -> list[int]:
    """Return a process, if it still exists, and all its descendants."""
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
    """Return the children of a process with one thread, including zombies."""
    try:
        return [int(child) for child in read_whole("/proc/%d/task/%d/children" % (pid, pid)).split()]
    except OSError:  # a kernel without that file, or a process that has ended
        return [each for each, process in read_processes().items() if process.parent == pid]


def children_seconds(pid: int) -> float:
    """Return the processor time of the children that a process has waited for."""
    fields = _read("%d/stat" % pid).rpartition(")")[2].split()[_TIMES.start + 2 : _TIMES.stop]
    return sum(int(ticks) for ticks in fields) / os.sysconf("SC_CLK_TCK")


def read_processes() -> dict[int, ProcessStat]:
    """Return every process that this one can see; none without /proc. Raise OSError for want of descriptors."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    stats = {int(name): _read(name + "/stat") for name in names if name.isdigit()}
    return {pid: parse_stat(text) for pid, text in stats.items() if text}


def parse_stat(text: str) -> ProcessStat:
    """Parse /proc/<pid>/stat: the time includes the threads, and the children that the process has waited for."""
    fields = text.rpartition(")")[2].split()
    times = fields[_TIMES]
    return ProcessStat(
        parent=int(fields[_PARENT]), threads=int(fields[_THREADS]), ticks=sum(int(time) for time in times)
    )


def own_bytes(text: str) -> int:
    """Return the memory without a file behind it from /proc/<pid>/status; an ended process holds no memory."""
    kibibytes = 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in _MEMORY:
            kibibytes += int(value.split()[0])
    return kibibytes * 1024


def socket_bytes(text: str, *, each: int) -> int:
    """Return the most that all sockets in /proc/<pid>/net/sockstat, except the first few, can hold."""
    words = text.split()[:3]
    sockets = int(words[2]) if words[:2] == ["sockets:", "used"] else 0
    return max(0, sockets - _FREE_SOCKETS) * each


def _read(name: str) -> str:
    """Return a file of /proc; an empty text when its process is gone."""
    try:
        with open("/proc/" + name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# Ending processes


def end_group(leader: int) -> None:
    """Kill the processes that stayed in the leader's group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def end_descendants(*, spared: Container[int] = ()) -> bool:
    """Kill and reap all descendants of this process, except the spared children and their descendants.

    Return False if some withstood, or if there was no descriptor to look for them with.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            table = read_processes()
        except OSError:
            return False
        found = [pid for pid, process in table.items() if process.parent == os.getpid() and pid not in spared]
        if not found:
            return True
        if time.monotonic() > deadline:
            return False
        for child in found:
            for pid in tree(child, table):
                end_process(pid)
        wait_for(set(found))


def wait_for(pids: set[int]) -> None:
    """Reap these children as they end, within the patience."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        pids = {pid for pid in pids if not is_reaped(pid)}
        if not pids:
            return
        time.sleep(_PAUSE_S)


def end_process(pid: int) -> None:
    """Kill a process, if it still exists and is ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def is_reaped(pid: int) -> bool:
    """Reap a child that has ended; return whether it is reaped now, or was before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
