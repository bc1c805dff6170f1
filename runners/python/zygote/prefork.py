"""Children that are there before their call, and how many of them are worth having.

Most are forked *ahead*: a call has only to be handed to one. Beside them a *vacant* one is kept, once a call found none
ahead: its guard has put up the walls, and forks the tool's process when the call has come. A third of what a fork on
demand takes is over then, for a sixth of the memory.

Demand tells: one more whenever a call found none, one fewer when every call found one for a while, never more than the
engine allowed. Nothing is kept when there was no call at all for a while: each holds more memory than the zygote, and
who pauses so long does not miss the milliseconds that forking takes on demand. The next call brings one back. A box for
one call needs one, however long it waits, and none once that call has come. When they die before they have a call,
something is wrong with this place, and after a few of them no more are made: a call that forks its own child will say
what it is.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from zygote.child import Child

QUIET_S = 10.0
_MOST_LOST = 3


class Spares:
    """The children that wait for a call, oldest first; `may_be_vacant`: one can wait without a tool's process."""

    def __init__(self, *, most: int, are_for_one_call: bool = False, may_be_vacant: bool = False) -> None:
        self._most = most
        self._are_for_one_call = are_for_one_call
        self._has_been_called = False
        self._wanted = min(1, most)
        self._lost = 0
        self._last_change = self._last_call = time.monotonic()
        self._children: list[Child] = []
        self._may_be_vacant = may_be_vacant and not are_for_one_call
        self._wants_vacant = False
        self._vacant: Child | None = None

    def __bool__(self) -> bool:
        return bool(self._children or self._vacant)

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    @property
    def wanted(self) -> int:
        """How many are worth having now."""
        return self._wanted

    @property
    def are_too_few(self) -> bool:
        """Whether another should be forked when there is time."""
        if self._has_been_called and self._are_for_one_call:
            return False
        return len(self._children) < self._wanted and self._lost < _MOST_LOST

    @property
    def lack_a_vacant_one(self) -> bool:
        """Whether that should be forked when there is time."""
        return self._wants_vacant and self._vacant is None and self._lost < _MOST_LOST

    @property
    def may_become_fewer(self) -> bool:
        """Whether a quiet time would change anything."""
        return bool(self) and not self._are_for_one_call

    def add(self, child: Child) -> None:
        """One more is waiting."""
        self._children.append(child)

    def add_vacant(self, child: Child) -> None:
        """Now there is one."""
        self._vacant = child

    def take(self) -> Child | None:
        """The one that has waited longest; a call that finds none ahead is noted, and gets the vacant one."""
        if not self._children:
            return self.miss()
        self._note_call()
        return self._children.pop(0)

    def miss(self) -> Child | None:
        """A call found none ahead, and gets the vacant one, if there is one; not ours any more."""
        self._note_call()
        self._wanted = min(self._wanted + 1, self._most)
        self._last_change = time.monotonic()
        self._wants_vacant = self._may_be_vacant
        return self.take_vacant()

    def take_ready(self) -> Child | None:
        """The one that has waited longest of those that are ready for a call."""
        ready = next((child for child in self._children if child.spent is not None), None)
        if ready:
            self._note_call()
            self._children.remove(ready)
        return ready

    def take_vacant(self) -> Child | None:
        """The vacant one, if there is one; not ours any more."""
        vacant, self._vacant = self._vacant, None
        return vacant

    def release(self, child: Child) -> None:
        """It is not ours any more, if it still was: it has a call."""
        self._note_call()
        self._wanted = max(self._wanted, min(1, self._most))
        if child in self._children:
            self._children.remove(child)

    def lose(self, child: Child) -> None:
        """It ended, or spoke, before it had a call; one that was not wanted any more may."""
        if child is self._vacant:
            self._vacant = None
            self._lost += 1
        if child in self._children:
            self._children.remove(child)
            self._lost += 1

    def fail(self) -> None:
        """One more could not be had."""
        self._lost += 1

    def forgive(self) -> None:
        """One that was lost had a call after all."""
        self._note_call()
        self._lost = max(self._lost - 1, 0)

    def unwanted(self) -> list[Child]:
        """After a quiet time, those that are too many now; not ours any more."""
        now = time.monotonic()
        is_at_rest, is_quiet = now - self._last_call > QUIET_S, now - self._last_change > QUIET_S
        if not self.may_become_fewer or not (is_at_rest or is_quiet):
            return []
        self._wanted = 0 if is_at_rest else max(self._wanted - 1, min(1, self._most))
        self._last_change = now
        if is_at_rest:
            self._wants_vacant = False
            return self.give_up()
        return [self._children.pop() for _ in range(len(self._children) - self._wanted)]

    def newest(self) -> list[Child]:
        """The one that was forked last, if there is any; not ours any more."""
        return [self._children.pop()] if self._children else []

    def give_up(self) -> list[Child]:
        """All of them; not ours any more."""
        children, vacant = self._children, self._vacant
        self._children, self._vacant = [], None
        return [*children, vacant] if vacant else children

    def _note_call(self) -> None:
        self._has_been_called = True
        self._last_call = time.monotonic()
