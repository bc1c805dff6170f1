"""The slots of one box: lent to the runner ahead of need, taken by calls, and renewed after each.

What the runner says of slots is checked like all that a box says: one that it does not have, or that is taken, is its
end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from sandbox.errors import ProtocolError
from sandbox.protocols import Slot


class Slots:
    """Those that were lent, and which of them calls are in."""

    def __init__(self) -> None:
        self._lent: dict[int, Slot] = {}
        self._taken: set[int] = set()

    def lend(self, slots: Sequence[Slot]) -> tuple[list[list[int]], list[int]]:
        """What is said of them, and the descriptors that go along, which are to be given away."""
        said, doors = [], list[int]()
        with ExitStack() as opened:
            for slot in slots:
                own = slot.open_cgroup_fds()
                for door in own:
                    opened.callback(os.close, door)
                said.append([slot.id, len(own)])
                doors += own
            opened.pop_all()
        self._lent |= {slot.id: slot for slot in slots}
        return said, doors

    def take(self, id: int) -> Slot:
        """A call is in that one now, or the child that waits for one. What is opened to read it is open from here on:
        later, somebody waits for that."""
        if id not in self._lent or id in self._taken:
            raise ProtocolError(f"a box put a call into slot {id}, which is not free")
        self._taken.add(id)
        slot = self._lent[id]
        slot.read()
        return slot

    def leave(self, slot: Slot) -> None:
        """No call is in it any more."""
        self._taken.discard(slot.id)

    def renew(self, slot: Slot) -> bool:
        """Make it ready for the next call; False when it had to be retired."""
        self.leave(slot)
        is_renewed = slot.renew()
        if not is_renewed and self._lent.pop(slot.id, None) is not None:
            slot.close()
        return is_renewed

    def close(self) -> None:
        """The box is gone."""
        for slot in self._lent.values():
            slot.close()
        self._lent.clear()
