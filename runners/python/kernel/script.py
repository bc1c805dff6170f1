"""System calls that are written down once, to be made in a row by every child.

A child pays for each page that it is the first to write to after the fork, and Python writes nearly wherever it reads:
counts of references, caches in its own code. Working out what a wall asks of the kernel touches hundreds of pages,
though all of it is the same for every call. So it is worked out in the parent, down to the numbers that the kernel is
given and the memory they point to, and what is left for the child is one loop over these.

The numbers of descriptors are foretold: the kernel gives the lowest that is free, and the first free one is known. A
call that gives another, like any that fails, ends the run.
"""

from __future__ import annotations

from kernel import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any


class Script(calls.Kernel):
    """Calls being written down. The process that runs them must have no descriptor open from `first_free` on."""

    def __init__(self, *, first_free: int) -> None:
        self._first_free = first_free
        self._open: set[int] = set()
        self._steps: list[tuple[tuple[int, ...], int | None]] = []
        self._notes: list[tuple[str, str, Container[int]]] = []
        self._kept: list[Any] = []

    def make(
        self, name: str, *arguments: Any, about: str = "", gives: int | None = 0, unless: Container[int] = ()
    ) -> None:
        """Write this call down, with what it is to give."""
        numbers, kept = calls.written(name, *arguments)
        self._steps.append((numbers, gives))
        self._notes.append((self.wall, calls.label(name, about), unless))
        self._kept += kept

    def open(self, name: str, *arguments: Any, about: str = "", unless: Container[int] = ()) -> int:
        """The descriptor that this call will give."""
        foretold = next(number for number in range(self._first_free, 1 << 10) if number not in self._open)
        self.make(name, *arguments, about=about, gives=foretold, unless=unless)
        self._open.add(foretold)
        return foretold

    def close(self, descriptor: int, *, unless: Container[int] = ()) -> None:
        """Write down that it is closed; its number is free again."""
        super().close(descriptor, unless=unless)
        self._open.discard(descriptor)

    def run(self) -> None:
        """Make the calls. OSError for one that did not give what it should; `wall` then says what it was for."""
        raw = calls.raw
        for step, (numbers, gives) in enumerate(self._steps):
            result = raw(*numbers)
            if result != gives:
                self.wall, what, unless = self._notes[step]
                calls.judge(what, result, gives, unless)
