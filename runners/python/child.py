"""A child of the zygote: the guard of one call, the five pipes that lead to it, and what is known of it so far.

What is said on the pipes is told in call_pipes.py. Nothing here waits: the zygote's ends of them are non-blocking.
"""

from __future__ import annotations

import collections
import os
import time

import call_pipes as pipes
import frames
import guard
import workplace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

READ_SIZE = 1 << 16
_DRAIN_S = 0.1
_HEAD = 4


class Child:
    """One forked child, from the fork to its last byte."""

    __slots__ = (
        "_head",
        "_replied",
        "_requests",
        "_said",
        "ahead",
        "call",
        "credit",
        "has_ended",
        "home",
        "killed_by",
        "outputs",
        "pid",
        "request",
        "slot",
        "spent",
        "status",
        "value",
        "walls",
    )

    def __init__(self, pid: int, ends: Sequence[int], *, slot: int | None, home: str | None, ahead: bool) -> None:
        self.pid = pid
        self.slot = slot
        self.home = home
        self.ahead = ahead
        self.request, stdout, stderr, self.value, self.status = ends
        self.outputs = ((stdout, frames.STDOUT), (stderr, frames.STDERR))
        self.call: int | None = None
        self.credit = 0
        self.walls: bytes | None = None
        self.spent: float | None = None
        self.killed_by: str | None = None
        self.has_ended = False
        self._requests: collections.deque[bytes] = collections.deque()
        self._said = bytearray()
        self._head = b""
        self._replied = 0

    def put(self, data: bytes) -> None:
        """Keep a part of the request, to be handed on with the next."""
        self._requests.append(data)

    def push(self) -> bool:
        """Hand the request on as far as the pipe takes it; False when some of it must wait for room."""
        while self._requests:
            data = b"".join(self._requests)
            self._requests.clear()
            try:
                written = os.write(self.request, data)
            except BlockingIOError:
                self._requests.append(data)
                return False
            except BrokenPipeError:
                return True
            if written < len(data):
                self._requests.append(data[written:])
        return True

    def completes_reply(self, data: bytes) -> bool:
        """Count the reply's bytes as they pass, its length being the first of them; whether these are the last."""
        was_whole = self._has_whole_reply()
        self._head += data[: _HEAD - len(self._head)]
        self._replied += len(data)
        return self._has_whole_reply() and not was_whole

    def _has_whole_reply(self) -> bool:
        return len(self._head) == _HEAD and self._replied >= _HEAD + int.from_bytes(self._head, "big")

    def hear(self) -> tuple[list[bytes], bool]:
        """The guard's records that are complete now, and whether it will say no more."""
        data = _read(self.status)
        self._said += data or b""
        return pipes.split_records(self._said), data == b""

    def drain(self) -> Iterator[tuple[int, bytes]]:
        """What the pipes of an ended call still hold, stream by stream."""
        yield from self.drain_outputs()
        yield from _drained(self.value, frames.VALUE)

    def drain_outputs(self) -> Iterator[tuple[int, bytes]]:
        """What was printed until now."""
        for descriptor, stream in self.outputs:
            yield from _drained(descriptor, stream)

    def descriptors(self) -> tuple[int, ...]:
        """All that is open for this child."""
        return (self.request, *(descriptor for descriptor, _ in self.outputs), self.value, self.status)


def fork(plan: dict[str, Any], *, slot: int | None, doors: Sequence[int], ahead: bool) -> Child:
    """Fork a child behind the walls of `plan`; OSError when the kernel has no process or descriptors for it."""
    ours: list[int] = []
    theirs: list[int] = []
    home = workplace.choose(plan)
    try:
        for direction in (-1, 1, 1, 1, 1):
            near, far = os.pipe()[::direction]
            ours.append(near)
            theirs.append(far)
            os.set_blocking(near, False)
        pid = guard.fork(dict(plan, home=home), theirs, doors, ahead=ahead)
    except OSError:
        _close_all(ours)
        raise
    finally:
        _close_all(theirs)
    return Child(pid, ours, slot=slot, home=home, ahead=ahead)


def _drained(descriptor: int, stream: int) -> Iterator[tuple[int, bytes]]:
    """What a pipe holds; a process that goes on, or that escaped, could write for ever."""
    deadline = time.monotonic() + _DRAIN_S
    data = _read(descriptor)
    while data:
        yield stream, data
        data = _read(descriptor) if time.monotonic() < deadline else None


def _read(descriptor: int) -> bytes | None:
    """What is there, ``b""`` at the end, None when there is nothing now."""
    try:
        return os.read(descriptor, READ_SIZE)
    except BlockingIOError:
        return None


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
