"""Children whose tool's process comes from a template, from the order for the process until a call gets the child.

The template forks one process after the other (see zygote/template_control.py). A call never gets a child whose process
is not verified yet: the call waits until one is, and `order_processes` makes sure that enough are on their way.
"""

from __future__ import annotations

import os

from box import pipes
from call import guard
from zygote.template_view import TemplateLost, check_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zygote.child import Child
    from zygote.child_pool import ChildPool
    from zygote.poll_loop import PollLoop
    from zygote.template_control import TemplateControl


class TemplateChildren:
    """The children of one template that have no call yet."""

    def __init__(self, template: TemplateControl, *, pool: ChildPool, loop: PollLoop) -> None:
        self._template = template
        self._pool = pool
        self._loop = loop
        self._unborn: list[Child] = []
        """Children that wait for a process of the template."""
        self._born: list[Child] = []
        """Children with a verified process, for calls that wait."""
        pool.template = self

    def attend(self, *, on_born: Callable[[], None], on_lost: Callable[[str], None]) -> None:
        """Serve from the zygote's loop from now on.

        `on_born` gives children to calls that wait; `on_lost` gets the reason why the template was lost.
        """
        self._on_born, self._on_lost = on_born, on_lost
        self._template.attend(self._loop, known=self._pool.pids, on_born=self._note_born, on_lost=self._lose)

    @property
    def is_busy(self) -> bool:
        """Whether the template is at work."""
        return self._template.is_busy

    @property
    def number(self) -> str:
        """The template's number in /proc."""
        return str(self._template.pid)

    def check_time(self) -> None:
        """End a template that takes too long."""
        self._template.check_time()

    def check_rest(self) -> None:
        """End a template that runs without an order."""
        self._template.check_rest()

    def order(self, content: dict[str, Any], **options: float) -> None:
        """Have the template import or compile something more."""
        self._template.order(content, **options)

    def order_process(self, child: Child) -> None:
        """Have the template fork the process for this child's guard."""
        self._unborn.append(child)
        self._template.order_process(child)

    def order_processes(self, count: int) -> bool:
        """Have that many processes on their way for calls that wait.

        Return False if there are not enough slots, or if the kernel has no process or descriptors for one. Raise
        OSError if the end of another child could not change that.
        """
        while sum(not child.ahead for child in self._unborn) < count:
            try:
                child = self._pool.fork_for_call()
            except OSError:
                if self._pool.is_empty:
                    raise
                return False
            if child is None:
                return False
            self.order_process(child)
        return True

    def note_missing(self) -> None:
        """Note that a call has to wait for a process; a half-started child gets it, if there is one."""
        half_started = self._pool.idle.miss()
        if half_started:
            self.order_process(half_started)

    def take(self) -> Child | None:
        """Return a child with a verified process, for a call; only the engine calls children on direct pipes."""
        if self._born:
            return self._born.pop(0)
        return None if self._pool.uses_direct_pipes else self._pool.idle.take_ready()

    def forget(self, child: Child) -> None:
        """Forget a child that is dead or no longer wanted."""
        for waiting in (self._unborn, self._born):
            if child in waiting:
                waiting.remove(child)
        self._template.forget(child)

    def note_isolation(self, child: Child, record: bytes) -> bool:
        """Take a guard's record about the process that the template forked; return False if something is wrong with it.

        A fault of the guard itself is left to the next call, whose process comes from its guard.
        """
        fault = pipes.read_fault(record)
        if fault:
            self._lose(fault[1] if fault[0] == guard.ENVIRONMENT else "")
            return False
        child.isolation = record
        self._template.note_verified(child)
        return True

    def _note_born(self, child: Child) -> None:
        """The process is verified, and nothing else runs: the child may get a call."""
        try:
            check_groups(child.tool or 0, like=child.pid)
        except TemplateLost as lost:
            self._lose(str(lost))
            return
        try:
            os.write(child.status, guard.VERIFIED)
        except OSError:  # the guard is dead, which the loop handles next
            return
        if child in self._unborn:
            self._unborn.remove(child)
        if not child.ahead:
            self._born.append(child)
        self._on_born()
        unwanted, self._born = self._born, []
        for each in unwanted:
            self._pool.discard(each)

    def _lose(self, reason: str) -> None:
        """End the template, and the children that will get no process."""
        if self._pool.template is not self:
            return
        self._pool.template = None
        half_started = self._pool.idle.take_half_started()
        dead = [*self._unborn, *([half_started] if half_started else [])]
        for child in dead:
            self._pool.kill(child, None)
        self._template.end()
        self._on_lost(self._template.explain(reason) if reason else "")
        for child in dead:
            self._pool.idle.lose(child)
            self._pool.release_unused(child)
