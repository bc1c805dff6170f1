"""The nursery: where children come from, for a call that has come or ahead of one.

A child takes a slot, if calls are in slots here, and on a box with lines a line, if it is forked ahead. What is worth
having ahead is told by demand (see spares.py), and made when there is time.

Where there is a template, it forks the tools' processes, one after the other. A call then never gets a child whose
process is not verified yet: it waits until one is, and `bear` sees to it that enough are on their way.
"""

from __future__ import annotations

import child as children
import guard
from spares import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from brood import Brood
    from child import Child
    from lines import Line, Lines
    from loop import Loop
    from slots import Slots
    from template_control import TemplateControl


class Nursery:
    """Forks; `hear` is called with a child whenever its guard has said something."""

    def __init__(
        self,
        plan: dict[str, Any],
        *,
        loop: Loop,
        brood: Brood,
        slots: Slots,
        lines: Lines,
        hear: Callable[[Child], None],
    ) -> None:
        self._call = plan["call"]
        self._loop = loop
        self._brood = brood
        self._slots = slots
        self._lines = lines
        self._hear = hear
        self._template: TemplateControl | None = None
        self._unborn: list[Child] = []
        """Those that wait for a process of the template."""
        self._born: list[Child] = []
        """Those that have a verified one, for calls that wait."""
        self.spares = Spares(
            most=plan["ahead"],
            are_for_one_call=plan.get("single_use", False),
            may_be_vacant=guard.is_first(self._call),
        )

    @property
    def has_something_to_make(self) -> bool:
        """Whether another child is worth having, and can be had."""
        return self._wants_spare() or self._wants_vacant()

    def make(self) -> Line | None:
        """Fork that. One that cannot be forked is as good as lost, and this is the line that it would have had; a call
        that finds none meets what is wrong, and says it."""
        is_spare = self._wants_spare()
        line = self._lines.take() if is_spare else None
        try:
            child = self._fork(ahead=is_spare, is_vacant=not is_spare, line=line)
        except OSError:
            self.spares.fail()
            return line
        if is_spare:
            self.spares.add(child)
            self._lines.put_on(child)
            self._order_process(child)
        else:
            self.spares.add_vacant(child)
        return None

    def use_template(self, template: TemplateControl) -> None:
        """From now on the template forks the tools' processes."""
        self._template = template

    def bear(self, count: int) -> bool:
        """Have as many processes on their way for calls that wait; False if there is no slot for all of them. OSError
        when the kernel has no process or descriptors for one."""
        while sum(not child.ahead for child in self._unborn) < count:
            if not self._slots.has_room:
                return False
            self._order_process(self._fork())
        return True

    def note_missing(self) -> None:
        """A call has to wait for a process; where there is a vacant child, that one gets it."""
        vacant = self.spares.miss()
        if vacant:
            self._order_process(vacant)

    def note_born(self, child: Child) -> None:
        """The process of this child is verified."""
        if child in self._unborn:
            self._unborn.remove(child)
            if not child.ahead:
                self._born.append(child)

    def take_born(self) -> Child | None:
        """Return a child with a verified process, for a call; those on lines are the engine's to call."""
        if self._born:
            return self._born.pop(0)
        return None if self._lines.are_used else self.spares.take_ready()

    def forget(self, child: Child) -> None:
        """It is dead, or not wanted any more."""
        for waiting in (self._unborn, self._born):
            if child in waiting:
                waiting.remove(child)
        if self._template:
            self._template.forget(child)

    def give_up_template(self) -> list[Child]:
        """Return the children that will get no process."""
        self._template = None
        vacant = self.spares.take_vacant()
        unborn, self._unborn = [*self._unborn, *([vacant] if vacant else [])], []
        return unborn

    def take_unneeded(self) -> list[Child]:
        """Return those that were forked for calls which do not wait any more; not ours any more."""
        born, self._born = self._born, []
        return born

    def _order_process(self, child: Child) -> None:
        if self._template:
            self._unborn.append(child)
            self._template.bear(child)

    def next_child(self) -> Child | None:
        """For a call: one that is there, or is forked now; None while there is no slot for it. Those on lines are the
        engine's to call: it had none left. OSError when the kernel has no process or descriptors for it."""
        spare = self.spares.miss() if self._lines.are_used else self.spares.take()
        return self._fork() if spare is None and self._slots.has_room else spare

    def _wants_spare(self) -> bool:
        return self.spares.are_too_few and self._lines.has_room and self._can_fork()

    def _wants_vacant(self) -> bool:
        """Not in the place of one ahead, which has only to wait for its line."""
        return self.spares.lack_a_vacant_one and not self.spares.are_too_few and self._can_fork()

    def _can_fork(self) -> bool:
        return self._slots.has_room

    def _fork(self, *, ahead: bool = False, is_vacant: bool = False, line: Line | None = None) -> Child:
        slot = self._slots.take()
        doors = self._slots.doors(slot)
        try:
            child = children.fork(self._call, slot=slot, doors=doors, ahead=ahead, is_vacant=is_vacant, line=line)
        except OSError:
            self._slots.vacate(slot)
            raise
        self._brood.add(child)
        self._loop.on_readable(child.status, self._hear, child)
        return child
