"""Slots: control groups that the engine lends for calls, entered through *doors*, descriptors opened for us.

A slot serves one call at a time. After the call two things must have happened before it serves the next one, in either
order: its last process is reaped, and the engine has read what the group counted (`release`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Slots:
    """The slots of one box. Where calls need none, `take` gives None, and None may be handed back."""

    def __init__(self, *, are_needed: bool) -> None:
        self._are_needed = are_needed
        self._doors: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._occupied: set[int] = set()
        self._unread: set[int] = set()

    @property
    def has_room(self) -> bool:
        """Whether a child may be forked now."""
        return bool(self._free) or not self._are_needed

    @property
    def are_none(self) -> bool:
        """Whether calls are in slots here, and the engine has lent none that arrived."""
        return self._are_needed and not self._doors

    def add(self, slot: int, doors: list[int]) -> None:
        """The engine lends one more."""
        self._doors[slot] = doors
        self._free.append(slot)

    def take(self) -> int | None:
        """A slot for a new child; only while there is room."""
        if not self._are_needed:
            return None
        slot = self._free.pop(0)
        self._occupied.add(slot)
        return slot

    def give_up_some(self) -> bool:
        """Do without half of those that are free, but for one, whose doors are descriptors; whether there were any. The
        engine need not know: calls take turns in what is left."""
        kept = max(1, len(self._free) // 2)
        self._free, given_up = self._free[:kept], self._free[kept:]
        for slot in given_up:
            self._close(slot)
        return bool(given_up)

    def doors(self, slot: int | None) -> Sequence[int]:
        """What a process writes to, to be in the slot."""
        return () if slot is None else self._doors[slot]

    def hold(self, slot: int | None) -> None:
        """The call is over; the engine reads what it used, and releases the slot then."""
        if slot is not None:
            self._unread.add(slot)

    def vacate(self, slot: int | None) -> None:
        """The child is reaped: no process of its is left in the slot."""
        if slot is not None:
            self._occupied.discard(slot)
            self._free_if_idle(slot)

    def release(self, slot: int, *, retire: bool) -> None:
        """The engine has read it, and wants it used again or not."""
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
