"""The slots of one box: offered to the runner ahead of need, taken by calls, and renewed after each call.

Every report about slots is checked, as all that a box says: one about a slot that the box does not have, or that is
taken, ends the box.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from sandbox.errors import ProtocolError
from sandbox.protocols import Slot


class Slots:
    """The slots that were offered, and which of them calls have taken."""

    def __init__(self) -> None:
        self._offered: dict[int, Slot] = {}
        self._taken: set[int] = set()

    def offer(self, slots: Sequence[Slot]) -> tuple[list[list[int]], list[int]]:
        """Return the fields of the message about these slots, and the descriptors to send with it."""
        fields, cgroup_fds = [], list[int]()
        with ExitStack() as opened:
            for slot in slots:
                own = slot.open_cgroup_fds()
                for descriptor in own:
                    opened.callback(os.close, descriptor)
                fields.append([slot.id, len(own)])
                cgroup_fds += own
            opened.pop_all()
        self._offered |= {slot.id: slot for slot in slots}
        return fields, cgroup_fds

    def take(self, id: int) -> Slot:
        """Note that a call, or the child that waits for one, is in this slot."""
        if id not in self._offered or id in self._taken:
            raise ProtocolError(f"a box put a call into slot {id}, which is not free")
        self._taken.add(id)
        slot = self._offered[id]
        # Opens the files of its counters now, because later a caller waits for them.
        slot.read()
        return slot

    def leave(self, slot: Slot) -> None:
        """Note that the slot is free again."""
        self._taken.discard(slot.id)

    def renew(self, slot: Slot) -> bool:
        """Make the slot ready for the next call. Return False if it had to be retired."""
        self.leave(slot)
        is_renewed = slot.renew()
        if not is_renewed and self._offered.pop(slot.id, None) is not None:
            slot.close()
        return is_renewed

    def close(self) -> None:
        """Close all slots."""
        for slot in self._offered.values():
            slot.close()
        self._offered.clear()
