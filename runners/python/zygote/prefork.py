"""Children that exist before their call, and how many of them are worth having.

Most are forked *ahead*: such a child only has to receive its call. In addition one *half-started* child is kept once a
call found no child ahead: its guard has put up the isolation, and forks the tool's process when the call has come. That
saves a third of the time of a fork on demand, for a sixth of the memory.

Demand decides: one more whenever a call found none, one fewer when every call found one for a while, never more than
the engine allows. After a while without any call nothing is kept: each child holds more memory than the zygote, and
callers that pause for that long do not miss the milliseconds of a fork on demand. The next call brings one back. A box
for a single call needs one child, however long the call takes to come, and none once the call has come. Where children
die before they have a call, something is wrong with this machine; after a few of them no more are made, and the next
call, which forks its own child, reports the problem.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from zygote.child import Child

QUIET_S = 10.0
_MAX_LOST = 3


class IdleChildren:
    """The children that wait for a call, oldest first.

    A `single_use` box serves one call. `half_started` allows a child to wait without a tool's process.
    """

    def __init__(self, *, limit: int, single_use: bool = False, half_started: bool = False) -> None:
        self._limit = limit
        self._single_use = single_use
        self._has_been_called = False
        self._wanted = min(1, limit)
        self._lost = 0
        self._last_change = self._last_call = time.monotonic()
        self._children: list[Child] = []
        self._may_be_half_started = half_started and not single_use
        self._wants_half_started = False
        self._half_started: Child | None = None

    def __bool__(self) -> bool:
        return bool(self._children or self._half_started)

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    @property
    def wanted(self) -> int:
        """How many are worth having now."""
        return self._wanted

    @property
    def needs_more(self) -> bool:
        """Whether another child should be forked ahead when there is time."""
        if self._has_been_called and self._single_use:
            return False
        return len(self._children) < self._wanted and self._lost < _MAX_LOST

    @property
    def needs_half_started(self) -> bool:
        """Whether a half-started child should be forked when there is time."""
        return self._wants_half_started and self._half_started is None and self._lost < _MAX_LOST

    @property
    def may_shrink(self) -> bool:
        """Whether a quiet time would change anything."""
        return bool(self) and not self._single_use

    def add(self, child: Child) -> None:
        """Add a child that was forked ahead."""
        self._children.append(child)

    def add_half_started(self, child: Child) -> None:
        """Add the half-started child."""
        self._half_started = child

    def take(self) -> Child | None:
        """Return the child that has waited longest; a call that finds none ahead is noted and gets the half-started."""
        if not self._children:
            return self.miss()
        self._note_call()
        return self._children.pop(0)

    def miss(self) -> Child | None:
        """Note that a call found no child ahead, and return the half-started child, if there is one."""
        self._note_call()
        self._wanted = min(self._wanted + 1, self._limit)
        self._last_change = time.monotonic()
        self._wants_half_started = self._may_be_half_started
        return self.take_half_started()

    def take_ready(self) -> Child | None:
        """Return the child that has waited longest of those that are ready for a call."""
        ready = next((child for child in self._children if child.spent is not None), None)
        if ready:
            self._note_call()
            self._children.remove(ready)
        return ready

    def take_half_started(self) -> Child | None:
        """Return the half-started child, if there is one."""
        child, self._half_started = self._half_started, None
        return child

    def release(self, child: Child) -> None:
        """Note that a child has a call."""
        self._note_call()
        self._wanted = max(self._wanted, min(1, self._limit))
        if child in self._children:
            self._children.remove(child)

    def lose(self, child: Child) -> None:
        """Note that a child ended, or spoke, before it had a call; a child that was given up already may do so."""
        if child is self._half_started:
            self._half_started = None
            self._lost += 1
        if child in self._children:
            self._children.remove(child)
            self._lost += 1

    def note_failure(self) -> None:
        """Note that a child could not be forked."""
        self._lost += 1

    def forgive(self) -> None:
        """Note that a child that counted as lost had a call after all."""
        self._note_call()
        self._lost = max(self._lost - 1, 0)

    def take_unwanted(self) -> list[Child]:
        """Return the children that are too many after a quiet time."""
        now = time.monotonic()
        is_at_rest, is_quiet = now - self._last_call > QUIET_S, now - self._last_change > QUIET_S
        if not self.may_shrink or not (is_at_rest or is_quiet):
            return []
        self._wanted = 0 if is_at_rest else max(self._wanted - 1, min(1, self._limit))
        self._last_change = now
        if is_at_rest:
            self._wants_half_started = False
            return self.take_all()
        return [self._children.pop() for _ in range(len(self._children) - self._wanted)]

    def take_newest(self) -> list[Child]:
        """Return the child that was forked ahead last, if there is any."""
        return [self._children.pop()] if self._children else []

    def take_all(self) -> list[Child]:
        """Return all children that wait."""
        children, half_started = self._children, self._half_started
        self._children, self._half_started = [], None
        return [*children, half_started] if half_started else children

    def _note_call(self) -> None:
        self._has_been_called = True
        self._last_call = time.monotonic()
