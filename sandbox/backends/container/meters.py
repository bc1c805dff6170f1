"""What a container used, measured from outside of it.

Two sources, and neither asks anything inside:

* `ContainerMeter` reads the files of the container's control group, where the daemon is on this machine. One call runs
  in a container at a time, so between `renew` and `read` the group's counters are the call's. Reading takes
  microseconds and no right but to see the files.
* `facts` asks the daemon, wherever it is: how the container ended, what its counters say, and whether the kernel killed
  for memory. That takes milliseconds, and the counters up to a second with Docker 20.10, which gathers them once in a
  second; it blocks, so it belongs into a thread.

When the last process of a container dies its group goes, with every counter, but not at once: whoever hears that a
container is ending has its meter `remember` them. Otherwise only the daemon knows that the kernel did it for memory,
and tells it apart from a SIGKILL of anybody else's (`Facts.out_of_memory`), if it has heard of that.

What can be counted anew is (processor time, kills, refusals); a peak cannot, unless the kernel lets this user set it
back: root for memory, nobody for processes. A peak that has not moved since `renew` may be an earlier call's and is
None; so it is where the files of an earlier call are not given back yet, which takes the kernel a moment. The memory's
is all that the container held, runner included, which is what its limit holds against.

Under gVisor a group holds gVisor's own processes, and is right about the host. Measured with its ptrace platform: an
idle Python is 55 threads and 18 MiB where runc has 2 processes and 8 MiB, so that processes are not told; what a call
held is given back late, and may still be in the next one's peak; computing costs the same, system calls seven to ten
times as much. A process that the group refuses is one that gVisor cannot do without: the container ends (exit code 2)
or hangs, and the refusal is not counted. There, processes are to be limited inside (`ulimits`), not here.
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
from sandbox.backends.docker.daemon import translated
from sandbox.protocols import Reading

if TYPE_CHECKING:
    from docker import DockerClient

_OWN_KERNELS: Final = (b"runsc-sandbox",)
"""What the main process of a container is called whose processes the host's kernel does not know."""


_KILLED: Final = 137
_LATE_WORD_S: Final = 1.0
"""How long afterwards the daemon may still hear why a container was killed, or something in it, by its own clock."""


class ContainerMeter:
    """One container as a place for one call at a time."""

    def __init__(
        self, counters: Counters, *, id: int = 0, resting: int | None = 0, most_processes: int = sys.maxsize
    ) -> None:
        """`resting` of its processes are ours at any time of a call; None where processes are not told. What is beyond
        `most_processes`, which no call gets, is ours, too."""
        self.id = id
        self._counters = counters
        self._resting = resting
        self._most_processes = most_processes
        self._before = self._last = Reading()
        self._is_closed = False
        self.renew()

    def open_cgroup_fds(self) -> Sequence[int]:
        """None: whoever is in the container is in the group."""
        return ()

    def read(self) -> Reading:
        """What has been used since the last `renew`; of a container that is gone, what was remembered."""
        if self._is_closed:
            return Reading()
        now = self._counters.read()
        now = now if _is_there(now) else self._last
        cpu_s, memory, processes, kills, refusals, _ = used_since(self._before, now=now)
        return Reading(cpu_s, memory, self._its_own(processes), kills, refusals, self._its_own(now.processes_peak))

    def _its_own(self, processes: int | None) -> int | None:
        """Of so many processes in the container, those of the call."""
        if self._resting is None or processes is None:
            return None
        return min(max(processes - self._resting, 1), self._most_processes)

    def remember(self) -> None:
        """Keep what is counted now, for when the container is gone: it is ending."""
        self._last = Reading() if self._is_closed else self._counters.read()

    def renew(self) -> bool:
        """Start counting anew; False when the container is gone."""
        self._last = Reading()
        if self._is_closed:
            return False
        is_reset = self._counters.reset_memory_peak()
        now = self._counters.read()
        has_left_none = self._resting is None or (now.memory_peak_bytes or 0) <= RUNNER_MEMORY
        self._before = now._replace(memory_peak_bytes=0) if is_reset and has_left_none else now
        return _is_there(now)

    def leave_out_what_was_used(self) -> bool:
        """Count processor time from this moment on; False when the container is gone."""
        cpu_s = None if self._is_closed else self._counters.cpu_s()
        self._before = Reading(cpu_s, *self._before[1:])
        return cpu_s is not None

    def close(self) -> None:
        """Let go of the files, for good, though the group, which is the daemon's, may be there a little longer."""
        self._is_closed = True
        self._counters.close()


def open_meter(client: DockerClient, container: str, *, id: int = 0, resting: int = 0) -> ContainerMeter | None:
    """A meter of that running container, counting from now on; None where its control group is not to be seen here.

    `resting` processes in it are ours during a call, and not told as the tool's. Blocks; raises `BackendUnavailable`.
    """
    with translated("inspecting a container"):
        inspected = client.api.inspect_container(container)
    return meter_of(int(inspected["State"]["Pid"]), str(inspected["Id"]), id=id, resting=resting)


def meter_of(
    process: int, container: str, *, id: int = 0, resting: int = 0, most_processes: int = sys.maxsize
) -> ContainerMeter | None:
    """The same for a container whose main process and whole id are known: asks no daemon."""
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
    """Whether there is a group that says anything."""
    return now.cpu_s is not None or now.memory_peak_bytes is not None


def used_since(before: Reading, *, now: Reading) -> Reading:
    """What was used between two readings of counters that only grow; a peak that has not moved says nothing."""
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
class Facts:
    """What a daemon knows of one of its containers."""

    status: str
    """As the daemon says it: `running`, `paused`, `exited`, … and `gone` when it has no such container."""
    exit_code: int | None = None
    """Of its main process; None while that runs. 137 is any SIGKILL, the kernel's for memory included."""
    error: str = ""
    """Why it could not be started or ended well, in the daemon's words."""
    out_of_memory: bool = False
    """Whether the kernel killed something in it for memory."""
    totals: Reading = field(default_factory=Reading)
    """Its counters since it was started, as far as they were asked for and are told; see `used_since`."""


def facts(client: DockerClient, container: str, *, with_counters: bool = True, awaits_reason: bool = False) -> Facts:
    """What the daemon knows of it now; or, when something in it was killed, a moment later if it knows no reason yet.
    Blocks, the longer with counters; raises `BackendUnavailable`."""
    from docker.errors import NotFound

    with translated("inspecting a container"):
        try:
            inspected = client.api.inspect_container(container)
            totals, now = _totals(client, inspected) if with_counters else (Reading(), "")
            kills = _kills(client, inspected, until=now, awaits_one=awaits_reason)
        except NotFound:
            return Facts(status="gone")
    state = inspected["State"]
    return Facts(
        status=str(state["Status"]),
        exit_code=None if state["Running"] else int(state["ExitCode"]),
        error=str(state.get("Error") or ""),
        out_of_memory=bool(state.get("OOMKilled")) or kills > 0,
        totals=totals._replace(out_of_memory_kills=kills),
    )


def _totals(client: DockerClient, inspected: Mapping[str, Any]) -> tuple[Reading, str]:
    """Its counters, and when they were read by the daemon's clock; nothing of a container that does not run."""
    if not inspected["State"]["Running"]:
        return Reading(), ""
    stats: Mapping[str, Any] = client.api.stats(inspected["Id"], stream=False, one_shot=True)
    read_at = str(stats.get("read") or "")
    if not are_its_own(stats, inspected=inspected):
        return Reading(), read_at
    nanoseconds = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    cpu_s = None if nanoseconds is None else nanoseconds * 1e-9
    return Reading(cpu_s=cpu_s, memory_peak_bytes=stats["memory_stats"].get("max_usage")), read_at


def are_its_own(stats: Mapping[str, Any], *, inspected: Mapping[str, Any]) -> bool:
    """Whether counters that a daemon tells are those of the container.

    Some runtimes put it into no control group of its own. Then they are the whole machine's, and known by the limit
    that goes with them: every container of ours has one on memory.
    """
    return bool((stats.get("memory_stats") or {}).get("limit") == inspected["HostConfig"].get("Memory"))


def _kills(client: DockerClient, inspected: Mapping[str, Any], *, until: str, awaits_one: bool) -> int:
    """How often the kernel killed in it for memory, among the last events that the daemon remembers; once, if one is
    waited for.

    `OOMKilled` is only told of a container that ended, and missing when the daemon heard of the kill after the end.
    """
    state = inspected["State"]
    told = int(bool(state.get("OOMKilled")))
    began = _unix_time(str(state.get("StartedAt") or ""))
    now = _unix_time(until)
    if state["Running"] and awaits_one and now is not None:
        return _kills_between(client, inspected["Id"], began, now + _LATE_WORD_S, most=1)
    if state["Running"]:
        return _kills_between(client, inspected["Id"], began, now)
    ended = _unix_time(str(state.get("FinishedAt") or ""))
    if told or state["ExitCode"] != _KILLED or ended is None:
        return told
    return _kills_between(client, inspected["Id"], began, ended + _LATE_WORD_S, most=1)


def _kills_between(
    client: DockerClient, id: str, since: float | None, until: float | None, *, most: int | None = None
) -> int:
    """Those of that container, `most` at most. A time to come is waited for; without any it would be for ever."""
    if since is None or until is None:
        return 0
    times: dict[str, Any] = {"since": f"{since:.6f}", "until": f"{until:.6f}"}
    events = client.api.events(**times, filters={"container": id, "event": "oom"}, decode=True)
    with closing(events):
        return sum(1 for _ in islice(events, most))


def _unix_time(text: str) -> float | None:
    """A daemon's RFC 3339 time in seconds; None for "never"."""
    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    return seconds if seconds > 0 else None
