"""The brood: all children that were forked and are not buried yet, and how their ends come about.

A child lives until its call is over, until it is killed, or until it is not wanted any more. Then it is *dying*: what
leads to it is closed at once, but its slot and its folder stay in use until the kernel lets us reap it, for only then
is no process of its left in them. *Burying* it gives both back. Nobody waits for that: a signal tells of it, and only
whoever needs to know what a child used before it goes on waits for that one.

Where a guard is the first process of a pid namespace, killing it kills all of its call, and our own end kills the rest.
Where there is no such namespace, what a guard leaves behind is ours: it is found among our descendants, which is why
the guards that are still at work must be known here, to be spared.
"""

from __future__ import annotations

import os

from box import kill_tree, workdir
from call import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Any

    from zygote.child import Child
    from zygote.poll_loop import Loop
    from zygote.slots import Slots


class Brood:
    """The processes that we forked and did not reap."""

    def __init__(self, loop: Loop, slots: Slots, plan: dict[str, Any]) -> None:
        self._loop = loop
        self._slots = slots
        self._plan = plan
        self._living: set[int] = set()
        self._dying: dict[int, Child] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is none whose end could make room for another."""
        return not (self._living or self._dying)

    def pids(self) -> set[int]:
        """Return all that were forked and not reaped."""
        return self._living | set(self._dying)

    def add(self, child: Child) -> None:
        """One more was forked."""
        self._living.add(child.pid)

    def kill(self, child: Child, reason: str | None, *, wants_files: bool = False) -> None:
        """At once; or so that what it has left until now is sent first: one that runs its tool already hears that."""
        if child.killed_by is None:
            child.killed_by = reason
        if wants_files and child.spent is not None:
            guard.stop(child.pid)
        else:
            guard.kill(child.pid, self._plan)

    def wait(self, child: Child) -> tuple[int, struct_rusage]:
        """The guard was killed, and with it every process of its namespace; that takes the kernel a moment. Where there
        is no such namespace, what it left is ours."""
        _, status, spent = os.wait4(child.pid, 0)
        child.has_ended = True
        self._living.discard(child.pid)
        if not guard.is_first(self._plan):
            kill_tree.end_descendants(besides=self.pids())
        return status, spent

    def let_die(self, child: Child) -> None:
        """Close what leads to a child; its slot is free when it is reaped."""
        for descriptor in child.descriptors():
            self._loop.forget(descriptor)
            os.close(descriptor)
        self._living.discard(child.pid)
        if child.has_ended or kill_tree.is_reaped(child.pid):
            self._bury(child)
        else:
            self._dying[child.pid] = child

    def reap(self) -> None:
        """Bury those that have ended by now."""
        for pid in list(self._dying):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._bury(self._dying.pop(pid))

    def end_all(self) -> None:
        """Where our end is not the end of all that we forked, it is told to go first."""
        if guard.is_first(self._plan):
            return
        for pid in self.pids():
            guard.kill(pid, self._plan)
        kill_tree.wait_for(self.pids())
        kill_tree.end_descendants()

    def _bury(self, child: Child) -> None:
        """It is reaped: its slot is free, and its folder, whose last part its guard may not remove, can go."""
        self._slots.vacate(child.slot)
        if child.home:
            workdir.remove(child.home)
