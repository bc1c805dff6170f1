"""A process that prepares itself before its call comes, as its guard watches it.

Where no template imports packages, this process may do so ahead of its call, behind the walls of that. The guard gives
it as long as a call has, accepts it only if it is alone then, and keeps it stopped until the call comes.
"""

from __future__ import annotations

import os
import select
import time

from box import kill_tree, pipes, verification, watch
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket

_LOOK_MS = 20
_WORD_SIZE = 16
_HELD_LOOK_MS = 500


def await_word(link: socket.socket, pid: int, *, within_s: float | None = None) -> None:
    """Wait until the process is ready or dead, and kill it when the time is over; what it started may keep its end of
    the link."""
    until = None if within_s is None else time.monotonic() + within_s
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        if _has_ended(pid):
            return
        if until is not None and time.monotonic() > until:
            kill_tree.end_process(pid)
    link.recv(_WORD_SIZE)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def is_alone(subject: verification.Subject) -> bool:
    """Whether importing packages ahead of the call has left neither processes nor threads."""
    number = int(subject.number)
    return not watch.children(number) and verification.state_of(number)[1] == 1


def hold_until_called(subject: verification.Subject) -> None:
    """Stop the process, so that nothing of its packages runs, until its request comes or it is dismissed."""
    poll = select.poll()
    poll.register(pipes.REQUEST, select.POLLIN)
    os.kill(subject.pid, signal.SIGSTOP)
    while not poll.poll(_HELD_LOOK_MS):
        if verification.state_of(int(subject.number))[0] != verification.STOPPED:
            kill_tree.end_process(subject.pid)  # packages can have a timer wake it
            break
    os.close(pipes.REQUEST)
    os.kill(subject.pid, signal.SIGCONT)
