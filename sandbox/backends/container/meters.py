"""The usage of a container, measured from outside of it.

There are two sources, and neither asks a process inside:

* `ContainerMeter` reads the files of the container's control group, if the daemon is on this machine. A container runs
  a single call at a time, so between `renew` and `read` the group's counters are the call's. A reading takes
  microseconds and no right except to see the files.
* `container_facts` asks the daemon, on any machine: the end of the container, its counters, and whether the kernel
  killed for memory. An answer takes milliseconds, and the counters up to a second with Docker 20.10, which gathers
  them once in a second. The function blocks, so call it in a thread.

When the last process of a container dies, its group disappears with every counter, but not at once: on a sign that a
container is ending, its meter must `remember` the counters. Otherwise only the daemon knows that the kernel killed for
memory, and tells such a kill apart from any other SIGKILL (`ContainerFacts.out_of_memory`), if the daemon noticed.

Processor time, kills and refusals can be counted from zero; a peak cannot, unless the kernel lets this user reset it
(root for memory, no user for processes). A peak that has not moved since `renew` may be an earlier call's and is None,
also while the kernel still frees the files of an earlier call. The memory peak covers the whole container, runner
included, like its limit.

Under gVisor a group holds gVisor's own processes, and is right about the host. Measured with the ptrace platform: an
idle Python takes 55 threads and 18 MiB, with runc 2 processes and 8 MiB, so the meter reports no processes; gVisor
frees a call's memory late, so the memory may count in the next peak; computing costs the same, system calls cost seven
to ten times as much. gVisor cannot do without a process that the group refuses: the container ends (exit code 2) or
hangs, and the kernel does not count the refusal. So `ulimits` inside limit processes there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.cgroups import Counters, find_counters, groups_of, mounts
from sandbox.backends.container.container_config import RUNNER_MEMORY
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.protocols import Reading

if TYPE_CHECKING:
    from docker import DockerClient

_OWN_KERNELS: Final = (b"runsc-sandbox",)
"""The name of the main process of a container that has a kernel of its own."""

_BEYOND_EVERY_PEAK: Final = sys.maxsize
"""Used where memory of an earlier call would be part of the next peak: no peak is higher, so none is reported."""
_KILLED: Final = 137
_LATE_WORD_S: Final = 1.0
"""The time in which the daemon may still notice why a process of the container was killed, by the daemon's clock."""


class ContainerMeter:
    """A container that holds one call at a time."""

    def __init__(
        self, counters: Counters, *, id: int = 0, resting: int | None = 0, most_processes: int = sys.maxsize
    ) -> None:
        # `resting` processes are ours during any call; None if the group does not count processes. Processes beyond
        # `most_processes`, which no call gets, are ours, too.
        self.id = id
        self._counters = counters
        self._resting = resting
        self._most_processes = most_processes
        self._before = self._last = Reading()
        self._is_closed = False
        self.renew()

    def open_cgroup_fds(self) -> Sequence[int]:
        """Return no files: every process of the container is in the group."""
        return ()

    def read(self) -> Reading:
        """Return the usage since the last `renew`, up to the last `remember` if the container is gone."""
        if self._is_closed:
            return Reading()
        now = self._counters.read()
        now = now if _is_there(now) else self._last
        cpu_s, memory, processes, kills, refusals, _ = used_since(self._before, now=now)
        return Reading(cpu_s, memory, self._its_own(processes), kills, refusals, self._its_own(now.processes_peak))

    def _its_own(self, processes: int | None) -> int | None:
        """Return the call's share of the container's processes."""
        if self._resting is None or processes is None:
            return None
        return min(max(processes - self._resting, 1), self._most_processes)

    def remember(self) -> None:
        """Keep the present counters, because the container is ending."""
        self._last = Reading() if self._is_closed else self._counters.read()

    def renew(self) -> bool:
        """Start counting again; return False if the container is gone."""
        self._last = Reading()
        if self._is_closed:
            return False
        is_reset = self._counters.reset_memory_peak()
        now = self._before = self._counters.read()
        if is_reset:
            is_clean = self._resting is None or (now.memory_peak_bytes or 0) <= RUNNER_MEMORY
            self._before = now._replace(memory_peak_bytes=0 if is_clean else _BEYOND_EVERY_PEAK)
        return _is_there(now)

    def leave_out_what_was_used(self) -> bool:
        """Count processor time from this moment on; return False if the container is gone."""
        cpu_s = None if self._is_closed else self._counters.cpu_s()
        self._before = Reading(cpu_s, *self._before[1:])
        return cpu_s is not None

    def close(self) -> None:
        """Close the files for good; the daemon may remove the group later."""
        self._is_closed = True
        self._counters.close()


def open_meter(client: DockerClient, container: str, *, id: int = 0, resting: int = 0) -> ContainerMeter | None:
    """Return a meter of that running container, counting from now on; None if its control group is not visible here.

    `resting` processes in it are ours during a call. The function blocks, and raises `BackendUnavailable`.
    """
    with translate_failures("inspecting a container"):
        inspected = client.api.inspect_container(container)
    return meter_of(int(inspected["State"]["Pid"]), str(inspected["Id"]), id=id, resting=resting)


def meter_of(
    process: int, container: str, *, id: int = 0, resting: int = 0, most_processes: int = sys.maxsize
) -> ContainerMeter | None:
    """Return a meter of the container with that main process and whole id, without asking the daemon."""
    counters = find_counters(groups_of(process), part=container, mounted=mounts()) if process and container else None
    if counters is None:
        return None
    known = None if _has_own_kernel(process) else resting
    return ContainerMeter(counters, id=id, resting=known, most_processes=most_processes)


def _has_own_kernel(process: int) -> bool:
    try:
        program = Path(f"/proc/{process}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False
    return program in _OWN_KERNELS


def _is_there(now: Reading) -> bool:
    """Return whether the group exists."""
    return now.cpu_s is not None or now.memory_peak_bytes is not None


def used_since(before: Reading, *, now: Reading) -> Reading:
    """Return the usage between two readings of growing counters; a peak that has not moved says nothing."""
    cpu_s, memory_peak, processes_peak, kills, refusals, _ = now
    cpu_before, memory_before, processes_before, kills_before, refusals_before, _ = before
    return Reading(
        None if cpu_s is None or cpu_before is None else max(cpu_s - cpu_before, 0.0),
        _if_moved(memory_peak, before=memory_before),
        _if_moved(processes_peak, before=processes_before),
        max(kills - kills_before, 0),
        max(refusals - refusals_before, 0),
    )


def _if_moved(peak: int | None, *, before: int | None) -> int | None:
    return None if peak is None or peak <= (before or 0) else peak


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A daemon's knowledge about one of its containers."""

    status: str
    """The daemon's word (`running`, `paused`, `exited`, …), or `gone` if it has no such container."""
    exit_code: int | None = None
    """The exit code of its main process; None while that runs. 137 is any SIGKILL, the kernel's for memory included."""
    error: str = ""
    """The daemon's reason why the container did not start or end well."""
    out_of_memory: bool = False
    """Whether the kernel killed a process in it for memory."""
    totals: Reading = field(default_factory=Reading)
    """The counters since its start, as far as the daemon has them; see `used_since`."""


def container_facts(
    client: DockerClient, container: str, *, with_counters: bool = True, awaits_reason: bool = False
) -> ContainerFacts:
    """Return the daemon's facts about a container.

    With `awaits_reason`, wait a moment for the daemon's reason for a kill. The function blocks, longer with counters,
    and raises `BackendUnavailable`.
    """
    from docker.errors import NotFound

    with translate_failures("inspecting a container"):
        try:
            inspected = client.api.inspect_container(container)
            totals, now = _totals(client, inspected) if with_counters else (Reading(), "")
            kills = _kills(client, inspected, until=now, awaits_one=awaits_reason)
        except NotFound:
            return ContainerFacts(status="gone")
    state = inspected["State"]
    return ContainerFacts(
        status=str(state["Status"]),
        exit_code=None if state["Running"] else int(state["ExitCode"]),
        error=str(state.get("Error") or ""),
        out_of_memory=bool(state.get("OOMKilled")) or kills > 0,
        totals=totals._replace(out_of_memory_kills=kills),
    )


def _totals(client: DockerClient, inspected: Mapping[str, Any]) -> tuple[Reading, str]:
    """Return the counters of a running container, and the daemon's time of the reading."""
    if not inspected["State"]["Running"]:
        return Reading(), ""
    stats: Mapping[str, Any] = client.api.stats(inspected["Id"], stream=False, one_shot=True)
    read_at = str(stats.get("read") or "")
    if not belong_to(inspected, stats):
        return Reading(), read_at
    nanoseconds = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    cpu_s = None if nanoseconds is None else nanoseconds * 1e-9
    return Reading(cpu_s=cpu_s, memory_peak_bytes=stats["memory_stats"].get("max_usage")), read_at


def belong_to(inspected: Mapping[str, Any], stats: Mapping[str, Any]) -> bool:
    """Return whether a daemon's counters are those of the container."""
    # Some runtimes create no control group for a container. The counters are the whole machine's then, and so is the
    # limit next to them; every container of ours has a limit of memory.
    return bool((stats.get("memory_stats") or {}).get("limit") == inspected["HostConfig"].get("Memory"))


def _kills(client: DockerClient, inspected: Mapping[str, Any], *, until: str, awaits_one: bool) -> int:
    """Return how often the kernel killed in it for memory, according to the daemon's last events."""
    # The daemon sets `OOMKilled` for ended containers only, and misses a kill that it notices after the end.
    state = inspected["State"]
    known = int(bool(state.get("OOMKilled")))
    began = _unix_time(str(state.get("StartedAt") or ""))
    now = _unix_time(until)
    if state["Running"] and awaits_one and now is not None:
        return _kills_between(client, inspected["Id"], began, now + _LATE_WORD_S, most=1)
    if state["Running"]:
        return _kills_between(client, inspected["Id"], began, now)
    ended = _unix_time(str(state.get("FinishedAt") or ""))
    if known or state["ExitCode"] != _KILLED or ended is None:
        return known
    return _kills_between(client, inspected["Id"], began, ended + _LATE_WORD_S, most=1)


def _kills_between(
    client: DockerClient, id: str, since: float | None, until: float | None, *, most: int | None = None
) -> int:
    """Return the number of kills in that container, at most `most`."""
    if since is None or until is None:
        return 0
    times: dict[str, Any] = {"since": f"{since:.6f}", "until": f"{until:.6f}"}
    events = client.api.events(**times, filters={"container": id, "event": "oom"}, decode=True)
    with closing(events):
        return sum(1 for _ in islice(events, most))


def _unix_time(text: str) -> float | None:
    """Return a daemon's RFC 3339 time in seconds; None for "never"."""
    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    return seconds if seconds > 0 else None
