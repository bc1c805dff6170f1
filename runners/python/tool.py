"""The tool's own process, from its guard's fork to the call: limits per process, the measurement, the call."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import time

import call
import call_pipes as pipes
import walls
import workplace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HIGH, _BELOW_THE_LIMIT = 1024, 4
# Waiting signals, timers and message queues are counted per user and namespace. A core of one byte is none, and unlike
# none at all, it is not handed to a program of the host's either.
_ALWAYS = {"RLIMIT_CORE": 1, "RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 819200}
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "processes": resource.RLIMIT_NPROC,
}


def limit(plan: dict[str, Any]) -> None:
    """The limits that count per process. The guard takes them on itself, for what it forks to have them."""
    _limit(plan["limits"], held=plan["held"])
    for kind, value in _ALWAYS.items():
        if hasattr(resource, kind):
            resource.setrlimit(getattr(resource, kind), (value, value))
    if plan["cpus"]:
        os.sched_setaffinity(0, plan["cpus"])


def run(plan: dict[str, Any], *, ahead: bool) -> NoReturn:
    """Become the tool's process, wait for the call, run it; this is where it ends as well. Every fork makes the pages
    that are written to after it anew, so what can be done before, once for the guard and the tool, is."""
    os.setsid()
    if not plan["namespaces"]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        walls.die_with_parent(signal.SIGKILL)
    walls.own_its_files()
    value = _move_up(pipes.VALUE)
    if ahead:
        call.rehearse()
    pipes.tell({"cpu_s": round(time.process_time(), 6)})
    os.close(pipes.STATUS)
    limits, request = pipes.receive()
    _limit(limits, held=0)
    if plan["home"]:
        request["environment"].update(HOME=plan["home"], TMPDIR=os.path.join(plan["home"], workplace.TEMPORARY))
    call.run(request, value)


def _limit(limits: dict[str, int], *, held: int) -> None:
    """Lower the limits; what is lower already stays. Data that is `held` already is not the call's."""
    for name, wanted in limits.items():
        limit = wanted + (held if name == "data" else 0)
        hard = resource.getrlimit(_LIMITS[name])[1]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(_LIMITS[name], (limit, limit))


def _move_up(descriptor: int) -> int:
    """To a number that a tool does not close by counting, and that a child of it does not inherit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = _HIGH if soft == resource.RLIM_INFINITY else min(soft, _HIGH)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, most - _BELOW_THE_LIMIT)
    os.close(descriptor)
    return moved
