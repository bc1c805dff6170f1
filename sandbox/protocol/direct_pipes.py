"""The prefork children of one box that the engine reaches directly, each over pipes of its own.

The session offers pipes to the runner. The runner forks a child, gives it the pipes, and reports it as *ready*. The
engine then calls the child once, or closes the pipes. Every report is checked, as all that a box says: one about pipes
that the box does not have, or reported before, ends the box.

Demand decides how many children are worth having, by the same rule as the runner's own count: one more whenever a call
found none ready, one fewer when the runner reports a surplus, and none while there are no calls.
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

    pipes: DirectPipes
    slot: Slot | None
    cpu_before: float
    walls: bytes


class PreforkedChildren:
    """The pipes that were offered, and the children that wait at them."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._max = 0
        self._wanted = 0
        self._is_single_use = False
        self._keeps_children = False
        self._waiting: dict[int, DirectPipes] = {}
        self._ready: dict[int, ReadyChild] = {}

    def want(self, count: int, *, is_single_use: bool = False) -> None:
        """Allow up to `count` children from now on; with `is_single_use`, none after the only call."""
        self._max = count
        self._wanted = min(1, count)
        self._is_single_use = is_single_use

    def open_missing(self) -> Sequence[DirectPipes]:
        """Open and return the pipes that are missing, to be offered to the runner."""
        opened: list[DirectPipes] = []
        count = len(self._waiting) + sum(child.pipes.is_open for child in self._ready.values())
        while count + len(opened) < self._wanted:
            pipes = self._carrier.open_pipes()
            if pipes is None:
                break
            self._waiting[pipes.id] = pipes
            opened.append(pipes)
        return opened

    def take_ready(self, report: Ready, slot: Slot | None) -> None:
        """Note that a child waits at some pipes."""
        pipes = self._waiting.pop(report.line, None)
        if pipes is None:
            raise ProtocolError(f"a box reported a child at pipes {report.line}, which do not wait for one")
        self._keeps_children = True
        self._ready[pipes.id] = ReadyChild(pipes, slot, report.cpu_before, report.walls.encode())
        pipes.watch()

    @property
    def is_one_coming(self) -> bool:
        """Whether a child can be expected soon.

        False for a runner that is still busy with its first child, or keeps none while there are no calls.
        """
        return self._keeps_children and bool(self._waiting)

    def note_call(self) -> None:
        """Note a call, over pipes or over the runner. In a single-use box, it is the only one."""
        if self._is_single_use:
            self.want(0)

    def call(self, request: bytes, *, on_output: OnOutput, on_reply: Callable[[bytes], None]) -> ReadyChild | None:
        """Send a request to the child that has waited longest, and return the child. Return None if none is ready.

        A dead child stays here until the runner reports it.
        """
        for child in self._ready.values():
            if child.pipes.call(request, on_output=on_output, on_reply=on_reply):
                return self._ready.pop(child.pipes.id)
        self._wanted = min(self._wanted + 1, self._max)
        return None

    def dismiss(self, id: int, *, wanted: int) -> None:
        """Close the pipes of a surplus child, unless it was called."""
        if id in self._ready:
            self._ready[id].pipes.close()
            self._wanted = min(wanted, max(self._wanted - 1, min(1, self._max)))
            self._keeps_children = wanted > 0

    def lose(self, id: int) -> Slot | None:
        """Forget a child that is gone or never came, and return its slot."""
        child = self._ready.pop(id, None)
        pipes = self._waiting.pop(id, None) if child is None else child.pipes
        if pipes is None:
            raise ProtocolError(f"a box reported the loss of pipes {id}, which it does not have")
        pipes.close()
        return None if child is None else child.slot

    def close(self) -> None:
        """Close all pipes."""
        for pipes in (*self._waiting.values(), *(child.pipes for child in self._ready.values())):
            pipes.close()
        self._waiting.clear()
        self._ready.clear()
