"""The nursery: where children come from, for a call that has come or ahead of one.

A child takes a slot, if calls are in slots here, and on a box with lines a line, if it is forked ahead. What is worth
having ahead is told by demand (see zygote/prefork.py), and made when there is time.
"""

from __future__ import annotations

from call import guard
from zygote import child as children
from zygote.prefork import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zygote.child import Child
    from zygote.children import Brood
    from zygote.direct_pipes import Line, Lines
    from zygote.poll_loop import Loop
    from zygote.slots import Slots
    from zygote.template_children import Births


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
        self.lines = lines
        self._hear = hear
        self.births: Births | None = None
        """Where there is a template, which forks the tools' processes."""
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
        line = self.lines.take() if is_spare else None
        try:
            child = self._fork(ahead=is_spare, is_vacant=not is_spare, line=line)
        except OSError:
            self.spares.fail()
            return line
        if is_spare:
            self.spares.add(child)
            self.lines.put_on(child)
            if self.births:
                self.births.order_process(child)
        else:
            self.spares.add_vacant(child)
        return None

    def fork_for_call(self) -> Child | None:
        """Fork a child for a call that waits; None if there is no slot for it. OSError as in `next_child`."""
        return self._fork() if self._slots.has_room else None

    def next_child(self) -> Child | None:
        """For a call: one that is there, or is forked now; None while there is no slot for it. Those on lines are the
        engine's to call: it had none left. OSError when the kernel has no process or descriptors for it."""
        spare = self.spares.miss() if self.lines.are_used else self.spares.take()
        return self._fork() if spare is None and self._slots.has_room else spare

    def _wants_spare(self) -> bool:
        return self.spares.are_too_few and self.lines.has_room and self._can_fork()

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
