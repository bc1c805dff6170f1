"""The children of the zygote: forked for a call or ahead of one, handed out, killed, and reaped.

A child takes a slot, if calls have slots here, and, if it is forked ahead on a box with direct pipes, a set of those.
Demand decides how many are worth having ahead (see zygote/prefork.py); the zygote forks them when it has time.

*Direct pipes* are pipes that the engine made for one call, so that the bytes of the call do not pass through the
zygote. A set is four ends: where the tool reads its request, and where it writes stdout, stderr and its value. The
other ends never leave the engine, which shares their open files with no process. The zygote holds a set from the
message that hands it over until a child is forked for it. From `ready` on the engine calls the child by writing to the
pipes, or dismisses it by closing them. The zygote keeps the parent's part: it watches, kills, reaps, and reports the
end.

A child lives until its call is over, until it is killed, or until it is no longer wanted. Then the child is *dying*:
the descriptors that lead to it are closed at once, but its slot and its folder stay in use until the kernel lets us
reap it, because only then no process of the child is left in them. Nothing waits for that: a signal announces it. The
zygote only waits for a child whose usage it has to report.

Where a guard is the first process of a pid namespace, killing the guard kills its whole call, and the end of the zygote
kills everything else. Without such a namespace, the processes that a guard leaves behind become descendants of the
zygote, which finds and kills them. That is why the pool must know the guards that are still at work: to spare them.
"""

from __future__ import annotations

import os

from box import pipes, processes, workdir
from call import guard
from zygote import child as children
from zygote.prefork import IdleChildren
from zygote.slots import SlotTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from resource import struct_rusage
    from typing import Any

    from zygote.child import Child
    from zygote.engine_link import EngineLink
    from zygote.poll_loop import PollLoop
    from zygote.template_children import TemplateChildren

PIPES_OF_A_SET = 4


class DirectPipes:
    """A set of direct pipes without a child: its number, and the child's ends in the order of `pipes.arrange`."""

    __slots__ = ("ends", "id")

    def __init__(self, id: int, ends: list[int]) -> None:
        self.id = id
        self.ends = ends


class ChildPool:
    """All children that were forked and not reaped, and what the next ones need.

    `on_record` is called with a child whenever its guard has written something.
    """

    def __init__(
        self, plan: dict[str, Any], *, loop: PollLoop, link: EngineLink, on_record: Callable[[Child], None]
    ) -> None:
        self._call = plan["call"]
        self._loop = loop
        self._link = link
        self._on_record = on_record
        self._living: set[int] = set()
        self._dying: dict[int, Child] = {}
        self.uses_direct_pipes: bool = plan.get("lines", False)
        self._direct_pipes: list[DirectPipes] = []
        self._uncalled: dict[int, Child] = {}
        """The children on direct pipes that have no call yet, by the number of their set."""
        self.slots = SlotTable(is_needed=plan["slots"])
        self.idle = IdleChildren(
            limit=plan["ahead"],
            single_use=plan.get("single_use", False),
            half_started=guard.is_first(self._call),
        )
        self.template: TemplateChildren | None = None
        """Set where a template forks the processes of the tools."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no child whose end could make room for another."""
        return not (self._living or self._dying)

    def pids(self) -> set[int]:
        """Return the guards that were forked and not reaped."""
        return self._living | set(self._dying)

    # Forking

    @property
    def needs_child(self) -> bool:
        """Whether another idle child is worth having, and possible."""
        return self._needs_ahead() or self._needs_half_started()

    def fork_idle(self) -> None:
        """Fork a child that `needs_child` asks for; after a failure, the next call meets the reason and reports it."""
        is_ahead = self._needs_ahead()
        direct = self._direct_pipes.pop(0) if is_ahead and self.uses_direct_pipes else None
        try:
            child = self._fork(ahead=is_ahead, half_started=not is_ahead, direct=direct)
        except OSError:
            self.idle.note_failure()
            if direct is not None:
                self._link.report_gone(direct.id, pipes.end_without_record(None))
            return
        if not is_ahead:
            self.idle.add_half_started(child)
            return
        self.idle.add(child)
        if child.line is not None:
            self._uncalled[child.line] = child
        if self.template:
            self.template.order_process(child)

    def fork_for_call(self) -> Child | None:
        """Fork a child for a waiting call; None if there is no slot for it. Raise OSError as `next_child` does."""
        return self._fork() if self.slots.has_room else None

    def next_child(self) -> Child | None:
        """Return an idle child for a call, or fork one; None while there is no slot for it.

        Only the engine calls children on direct pipes, and it had none left. Raise OSError when the kernel has no
        process or descriptors for a child.
        """
        child = self.idle.miss() if self.uses_direct_pipes else self.idle.take()
        return self._fork() if child is None and self.slots.has_room else child

    def _needs_ahead(self) -> bool:
        has_pipes = bool(self._direct_pipes) or not self.uses_direct_pipes
        return self.idle.needs_more and has_pipes and self.slots.has_room

    def _needs_half_started(self) -> bool:
        """A half-started child never takes the place of a child ahead that only waits for its pipes."""
        return self.idle.needs_half_started and not self.idle.needs_more and self.slots.has_room

    def _fork(self, *, ahead: bool = False, half_started: bool = False, direct: DirectPipes | None = None) -> Child:
        slot = self.slots.take()
        try:
            child = children.fork(
                self._call,
                slot=slot,
                doors=self.slots.doors(slot),
                ahead=ahead,
                half_started=half_started,
                direct=direct,
            )
        except OSError:
            self.slots.vacate(slot)
            raise
        self._living.add(child.pid)
        self._loop.on_readable(child.status, self._on_record, child)
        return child

    # Direct pipes

    def add_direct_pipes(self, direct: DirectPipes) -> None:
        """Keep a set that the engine handed over."""
        self._direct_pipes.append(direct)

    def take_uncalled(self, line: int) -> Child | None:
        """Return the child on that set for its call or its end; None when the child went before."""
        return self._uncalled.pop(line, None)

    # Ends of children

    def kill(self, child: Child, reason: str | None, *, wants_files: bool = False) -> None:
        """End a child's call at once, or, with `wants_files`, after its guard has sent what the tool left.

        The guard of a child that runs its tool listens for the second form.
        """
        if child.killed_by is None:
            child.killed_by = reason
        if wants_files and child.spent is not None:
            guard.stop(child.pid)
        else:
            guard.kill(child.pid, self._call)

    def wait(self, child: Child) -> tuple[int, struct_rusage]:
        """Wait for a guard that was killed, and end what it left where there is no pid namespace."""
        _, status, usage = os.wait4(child.pid, 0)
        child.has_ended = True
        self._living.discard(child.pid)
        if not guard.is_first(self._call):
            processes.end_descendants(spared=self.pids())
        return status, usage

    def release(self, child: Child) -> None:
        """Close what leads to a child; its slot is free when the child is reaped."""
        for descriptor in child.descriptors():
            self._loop.forget(descriptor)
            os.close(descriptor)
        self._living.discard(child.pid)
        if child.has_ended or processes.is_reaped(child.pid):
            self._clean_up(child)
        else:
            self._dying[child.pid] = child

    def release_unused(self, child: Child) -> None:
        """Release a child that had no call, and report its end if it has direct pipes."""
        self.report_gone(child, pipes.end_without_record(None))
        self.release(child)

    def report_gone(self, child: Child, fields: dict[str, Any]) -> None:
        """Report the end of a child on direct pipes, once; the engine may have called it without our knowing."""
        if child.line is not None and self.take_uncalled(child.line):
            self._link.report_gone(child.line, fields)

    def discard(self, child: Child) -> None:
        """End an idle child; the engine itself has to dismiss one that it may be calling just now."""
        if child.is_ready:
            self._link.report_surplus(child, wanted=self.idle.wanted)
            return
        if self.template:
            self.template.forget(child)
        self.kill(child, None)
        self.release_unused(child)

    def discard_newest(self) -> None:
        """End the newest idle child, so that a call gets its slot, its descriptors or its memory."""
        for child in self.idle.take_newest():
            self.discard(child)

    def discard_lost(self, child: Child) -> None:
        """End a child that speaks before it has a call: no code of ours does that."""
        self.idle.lose(child)
        self.discard(child)

    def reap(self) -> None:
        """Reap the dying children that have ended by now."""
        for pid in list(self._dying):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._clean_up(self._dying.pop(pid))

    def end_all(self) -> None:
        """End all children, where the end of the zygote does not end them."""
        if guard.is_first(self._call):
            return
        for pid in self.pids():
            guard.kill(pid, self._call)
        processes.wait_for(self.pids())
        processes.end_descendants()

    def _clean_up(self, child: Child) -> None:
        """Free the slot and remove the folder of a reaped child; its guard may not remove the last part of that."""
        self.slots.vacate(child.slot)
        if child.home:
            workdir.remove(child.home)
