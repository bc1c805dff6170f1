"""The tool's own process, from its guard's fork to the end of the call."""

from __future__ import annotations

import fcntl
import os
import resource

import call
import call_pipes as pipes
import limits
import walls
import workplace
from signals import signal, stop_listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from findings import Found

_HIGH, _BELOW_THE_LIMIT = 1024, 4


def run(plan: dict[str, Any], found: Found, *, ahead: bool) -> NoReturn:
    """Become the tool's process, find the walls in force, wait for the call, run it; this is where it ends as well.
    Every fork makes the pages that are written to after it anew, so what can be done before, once for the guard and the
    tool, is; and what either of the two could do, this one does, which writes to most of those pages anyway."""
    os.setsid()
    if "pid" in plan["namespaces"]:
        stop_listening()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if not plan["namespaces"]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        walls.die_with_parent(signal.SIGKILL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.close(pipes.FILES)
    value = _move_up(pipes.VALUE)
    if ahead:
        walls.own_its_files(from_now_on=False)
        call.rehearse("f")
    home = call.settle()
    if not found.tell():
        os._exit(0)
    os.close(pipes.STATUS)
    lower, request = pipes.receive()
    walls.own_its_files()  # not before it has a call: the one that runs meanwhile may see it wait
    if lower:  # what its box leaves to others to count is not this process's to limit either
        limits.lower(limits.lowered({name: lower[name] for name in lower if name in plan["limits"]}, held=0))
    if plan["home"] and not plan["workplace"]:
        request["environment"].update(HOME=plan["home"], TMPDIR=os.path.join(plan["home"], workplace.TEMPORARY))
    call.run(request, value, home=home, gives_way=plan["is_counted"])


def _move_up(descriptor: int) -> int:
    """To a number that a tool does not close by counting, and that a child of it does not inherit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = _HIGH if soft == resource.RLIM_INFINITY else min(soft, _HIGH)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, most - _BELOW_THE_LIMIT)
    os.close(descriptor)
    return moved
