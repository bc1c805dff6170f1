"""Births: children whose tool's process comes from a template, from the order for it until a call gets it.

The template forks one process after the other (see template_control.py). A call never gets a child whose process is not
verified yet: it waits until one is, and `bear` sees to it that enough are on their way.
"""

from __future__ import annotations

import os

from box import records
from call import guard
from zygote.template_view import TemplateLost, check_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zygote.child import Child
    from zygote.children import Brood
    from zygote.forking import Nursery
    from zygote.poll_loop import Loop
    from zygote.template_control import TemplateControl


class Births:
    """The children of one template that have no call yet."""

    def __init__(self, template: TemplateControl, *, nursery: Nursery, brood: Brood, loop: Loop) -> None:
        self._template = template
        self._nursery = nursery
        self._lines = nursery.lines
        self._spares = nursery.spares
        self._brood = brood
        self._loop = loop
        self._unborn: list[Child] = []
        """Those that wait for a process of the template."""
        self._born: list[Child] = []
        """Those that have a verified one, for calls that wait."""
        nursery.births = self

    def attend(
        self,
        *,
        on_born: Callable[[], None],
        on_unwanted: Callable[[Child], None],
        on_dead: Callable[[Child], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Serve from the zygote's loop from now on. `on_born` has calls take children, `on_unwanted` gets those that
        no call took, `on_dead` those that a lost template leaves without a process, and `on_lost` the reason."""
        self._serve, self._discard, self._bury, self._report_loss = on_born, on_unwanted, on_dead, on_lost
        self._template.attend(self._loop, known=self._brood.pids, on_born=self._note_born, on_lost=self._lose)

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
        """End a template that runs while nothing is asked of it."""
        self._template.check_rest()

    def order(self, content: dict[str, Any], **options: float) -> None:
        """Have the template import or compile something more."""
        self._template.order(content, **options)

    def order_process(self, child: Child) -> None:
        """Have the template fork the process for this child's guard."""
        self._unborn.append(child)
        self._template.bear(child)

    def note_missing(self) -> None:
        """A call has to wait for a process; where there is a vacant child, that one gets it."""
        vacant = self._spares.miss()
        if vacant:
            self.order_process(vacant)

    def bear(self, count: int) -> bool:
        """Have as many processes on their way for calls that wait; False if there is no slot for all of them, or the
        kernel has no process or descriptors for one. OSError if no end of another child could change that."""
        while sum(not child.ahead for child in self._unborn) < count:
            try:
                child = self._nursery.fork_for_call()
            except OSError:
                if self._brood.is_empty:
                    raise
                return False
            if child is None:
                return False
            self.order_process(child)
        return True

    def take(self) -> Child | None:
        """Return a child with a verified process, for a call; those on lines are the engine's to call."""
        if self._born:
            return self._born.pop(0)
        return None if self._lines.are_used else self._spares.take_ready()

    def forget(self, child: Child) -> None:
        """It is dead, or not wanted any more."""
        for waiting in (self._unborn, self._born):
            if child in waiting:
                waiting.remove(child)
        self._template.forget(child)

    def note_walls(self, child: Child, record: bytes) -> bool:
        """Its guard describes the walls of the process that the template forked; False if something is wrong with it.

        What is wrong with the guard itself, the next call finds out, whose process comes from its guard.
        """
        fault = records.read_fault(record)
        if fault:
            self._lose(fault[1] if fault[0] == guard.ENVIRONMENT else "")
            return False
        child.walls = record
        self._template.note_verified(child)
        return True

    def _note_born(self, child: Child) -> None:
        """The process is verified, and nothing else runs: it may get a call."""
        try:
            check_groups(child.tool or 0, like=child.pid)
        except TemplateLost as lost:
            self._lose(str(lost))
            return
        try:
            os.write(child.status, guard.VERIFIED)
        except OSError:  # it is dead, which is heard next
            return
        if child in self._unborn:
            self._unborn.remove(child)
        if not child.ahead:
            self._born.append(child)
        self._serve()
        unwanted, self._born = self._born, []
        for each in unwanted:
            self._discard(each)

    def _lose(self, reason: str) -> None:
        """End the template, and the children that will get no process."""
        if self._nursery.births is not self:
            return
        self._nursery.births = None
        vacant = self._spares.take_vacant()
        dead = [*self._unborn, *([vacant] if vacant else [])]
        for child in dead:
            self._brood.kill(child, None)
        self._template.end()
        self._report_loss(self._template.explain(reason) if reason else "")
        for child in dead:
            self._spares.lose(child)
            self._bury(child)
