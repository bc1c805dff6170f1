"""The lines of one box: pipes of the engine's own, each to one child that the runner forked ahead.

A line is handed over, becomes *ready* when the runner says that a child waits on it, and is called once, or hung up.
What the runner says of lines is checked like all that a box says: one it does not have, or told of before, is its end.

How many are worth having is told by demand, as the runner tells it for its children: one more whenever a call found
none ready, one fewer when the runner has one too many, and none when it keeps none, once there was no call for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.errors import ProtocolError
from sandbox.protocol.messages import Ready
from sandbox.protocols import Carrier, DirectPipes, OnOutput, Slot


@dataclass(frozen=True, slots=True)
class ReadyChild:
    """A child that waits for its call."""

    line: DirectPipes
    slot: Slot | None
    cpu_before: float
    walls: bytes


class PreforkedChildren:
    """Those that were handed over and not called."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._most = 0
        self._wanted = 0
        self._are_for_one_call = False
        self._keeps_children = False
        self._waiting: dict[int, DirectPipes] = {}
        self._ready: dict[int, ReadyChild] = {}

    def want(self, most: int, *, are_for_one_call: bool = False) -> None:
        """From now on; so many at most, and none once their only call has come."""
        self._most = most
        self._wanted = min(1, most)
        self._are_for_one_call = are_for_one_call

    def open_missing(self) -> Sequence[DirectPipes]:
        """New ones, to be handed over, as far as there are too few."""
        opened: list[DirectPipes] = []
        has = len(self._waiting) + sum(child.line.is_open for child in self._ready.values())
        while has + len(opened) < self._wanted:
            line = self._carrier.open_pipes()
            if line is None:
                break
            self._waiting[line.id] = line
            opened.append(line)
        return opened

    def take_ready(self, said: Ready, slot: Slot | None) -> None:
        """A child waits on one of them."""
        line = self._waiting.pop(said.line, None)
        if line is None:
            raise ProtocolError(f"a box said that a child waits on line {said.line}, which is not waiting for one")
        self._keeps_children = True
        self._ready[line.id] = ReadyChild(line, slot, said.cpu_before, said.walls.encode())
        line.watch()

    @property
    def are_coming(self) -> bool:
        """Whether a child can be expected soon, though there is none; not of a runner that has not had one yet, which
        is busy, or that keeps none while there are no calls."""
        return self._keeps_children and bool(self._waiting)

    def note_call(self) -> None:
        """A call comes, on a line or by way of the runner; where that is the only one, no more are needed."""
        if self._are_for_one_call:
            self.want(0)

    def call(self, request: bytes, *, on_output: OnOutput, on_reply: Callable[[bytes], None]) -> ReadyChild | None:
        """Send it to the child that has waited longest, which is not ours any more. A call that finds none is noted.

        One that was found dead stays here until the runner says so."""
        for child in self._ready.values():
            if child.line.call(request, on_output=on_output, on_reply=on_reply):
                return self._ready.pop(child.line.id)
        self._wanted = min(self._wanted + 1, self._most)
        return None

    def dismiss(self, id: int, *, wanted: int) -> None:
        """There are too many, by the runner's count or by ours; one that has been called is not ours any more."""
        if id in self._ready:
            self._ready[id].line.close()
            self._wanted = min(wanted, max(self._wanted - 1, min(1, self._most)))
            self._keeps_children = wanted > 0

    def lose(self, id: int) -> Slot | None:
        """The child is gone, or there never was one; the slot it had."""
        child = self._ready.pop(id, None)
        line = self._waiting.pop(id, None) if child is None else child.line
        if line is None:
            raise ProtocolError(f"a box said that line {id} is lost, which it does not have")
        line.close()
        return None if child is None else child.slot

    def close(self) -> None:
        """Hang all of them up."""
        for line in (*self._waiting.values(), *(child.line for child in self._ready.values())):
            line.close()
        self._waiting.clear()
        self._ready.clear()
