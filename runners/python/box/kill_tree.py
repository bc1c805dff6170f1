"""Ending all processes of a call where no pid namespace does it at one stroke.

A guard, and the zygote behind it for the case that a tool kills its guard, adopt the orphans among their descendants.
So whatever a tool started is found below them, and is killed until nothing is left. Where there is no /proc to find it
in, only the tool's session is.
"""

from __future__ import annotations

import os
import time

from box import watch
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

_PATIENCE_S = 2.0
_PAUSE_S = 0.001


def end_group(leader: int) -> None:
    """Kill the processes that stayed in the leader's group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def end_descendants(*, besides: Container[int] = ()) -> bool:
    """Kill and reap all that descends from this process, except those children and theirs; False if some withstood, or
    there was no descriptor to look for them with."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            table = watch.read_processes()
        except OSError:
            return False
        children = [pid for pid, process in table.items() if process.parent == os.getpid() and pid not in besides]
        if not children:
            return True
        if time.monotonic() > deadline:
            return False
        for child in children:
            for pid in watch.tree(child, table):
                end_process(pid)
        wait_for(set(children))


def wait_for(pids: set[int]) -> None:
    """Reap these children as they end, for a while."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        pids = {pid for pid in pids if not is_reaped(pid)}
        if not pids:
            return
        time.sleep(_PAUSE_S)


def end_process(pid: int) -> None:
    """Kill it, if it is still there and ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def is_reaped(pid: int) -> bool:
    """Whether that child is gone now, or was before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
