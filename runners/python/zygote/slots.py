"""Slots: control groups that the engine lends for calls.

The zygote enters a slot through its *doors*, descriptors of `cgroup.procs` files that the engine opened. A slot serves
one call at a time. Before a slot serves the next call, two things must have happened, in either order: the last process
of the call is reaped, and the engine has read what the group counted (`release`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class SlotTable:
    """The slots of one box. Where calls need none, `take` returns None, and every method accepts None."""

    def __init__(self, *, is_needed: bool) -> None:
        self._is_needed = is_needed
        self._doors: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._occupied: set[int] = set()
        self._unread: set[int] = set()

    @property
    def has_room(self) -> bool:
        """Whether a child may be forked now."""
        return bool(self._free) or not self._is_needed

    @property
    def is_unusable(self) -> bool:
        """Whether calls need slots and the engine has lent none that arrived."""
        return self._is_needed and not self._doors

    def add(self, slot: int, doors: list[int]) -> None:
        """Add a slot that the engine lends."""
        self._doors[slot] = doors
        self._free.append(slot)

    def take(self) -> int | None:
        """Return a slot for a new child; only valid while there is room."""
        if not self._is_needed:
            return None
        slot = self._free.pop(0)
        self._occupied.add(slot)
        return slot

    def give_up_some(self) -> bool:
        """Close half of the free slots, but keep at least one; return whether any was closed.

        The doors are descriptors, of which this process has run out. The engine need not know: calls take turns in the
        slots that are left.
        """
        kept = max(1, len(self._free) // 2)
        self._free, given_up = self._free[:kept], self._free[kept:]
        for slot in given_up:
            self._close(slot)
        return bool(given_up)

    def doors(self, slot: int | None) -> Sequence[int]:
        """Return the descriptors that a process writes to in order to enter the slot."""
        return () if slot is None else self._doors[slot]

    def hold(self, slot: int | None) -> None:
        """Keep the slot of a call that is over until the engine has read it and releases it."""
        if slot is not None:
            self._unread.add(slot)

    def vacate(self, slot: int | None) -> None:
        """Note that the child is reaped, so that no process of it is left in the slot."""
        if slot is not None:
            self._occupied.discard(slot)
            self._free_if_idle(slot)

    def release(self, slot: int, *, retire: bool) -> None:
        """Note that the engine has read the slot; close it, with `retire`."""
        self._unread.discard(slot)
        if retire:
            self._close(slot)
        self._free_if_idle(slot)

    def _close(self, slot: int) -> None:
        for door in self._doors.pop(slot, ()):
            os.close(door)

    def _free_if_idle(self, slot: int) -> None:
        if slot in self._doors and slot not in self._occupied and slot not in self._unread:
            self._free.append(slot)
