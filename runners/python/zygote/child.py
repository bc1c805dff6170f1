"""A child of the zygote: the guard of one call, the pipes that lead to it, and the facts about it so far.

box/pipes.py describes the contents of the pipes. For a child on direct pipes only the guard's two pipes end here.
Writing a request is the only operation that blocks, and only for a child that has nothing to do but read it.
"""

from __future__ import annotations

import _socket as socket
import os

from box import call_isolation, frames, pipes, workdir
from call import guard
from call.generator_results import ITEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from zygote.child_pool import DirectPipes

_HEAD = 4
_READ_SIZE = 1 << 12
_OF_THE_GUARD = (1, 1)
_ALL_PIPES = (-1, 1, 1, 1, *_OF_THE_GUARD)
"""The direction of each pipe: -1 leads to the child."""


class Child:
    """A forked child, from the fork to its last byte."""

    __slots__ = (
        "_has_replied",
        "_head",
        "_passed",
        "_requests",
        "_said",
        "ahead",
        "call",
        "cpu",
        "credit",
        "end",
        "files",
        "files_credit",
        "has_ended",
        "home",
        "is_ready",
        "is_templated",
        "isolation",
        "killed_by",
        "line",
        "outputs",
        "pid",
        "request",
        "seen",
        "slot",
        "spent",
        "status",
        "tool",
        "value",
    )

    def __init__(self, pid: int, status: int, files: int, *, slot: int | None, home: str | None, ahead: bool) -> None:
        self.pid = pid
        self.status = status
        self.files = files
        self.slot = slot
        self.home = home
        self.ahead = ahead
        self.line: int | None = None
        self.is_templated = False
        """Whether the template forks the tool's process; `tool` is then the pid of that process, once it is known."""
        self.tool: int | None = None
        self.is_ready = False
        self.request: int | None = None
        self.outputs: tuple[tuple[int, int], ...] = ()
        self.value: int | None = None
        self.call: int | None = None
        self.credit = 0
        self.files_credit = 0
        self.cpu: int | None = None
        self.isolation: bytes | None = None
        self.spent: float | None = None
        self.killed_by: str | None = None
        self.seen: dict[str, float] = {}
        self.has_ended = False
        self.end: bytes | None = None
        self._requests: list[bytes] = []
        self._said = bytearray()
        self._head = b""
        self._passed = 0
        self._has_replied = False

    def set_pipes(self, request: int, stdout: int, stderr: int, value: int) -> None:
        """Set the zygote's ends of the tool's pipes; direct pipes have theirs at the engine."""
        self.request = request
        self.outputs = ((stdout, frames.STDOUT), (stderr, frames.STDERR))
        self.value = value

    def put(self, data: bytes) -> None:
        """Keep a part of the request, to write it together with the next part."""
        self._requests.append(data)

    def push(self, data: memoryview) -> None:
        """Write the parts that were kept and then `data`; a living child reads them at once, a dead one is ignored."""
        assert self.request is not None
        rest = [*(memoryview(part) for part in self._requests), data]
        self._requests.clear()
        try:
            while rest:
                written = os.writev(self.request, rest)
                while rest and written >= len(rest[0]):
                    written -= len(rest.pop(0))
                if rest:
                    rest[0] = rest[0][written:]
        except BrokenPipeError:
            return

    def completes_reply(self, data: memoryview) -> bool:
        """Count passing bytes of items and the reply, each behind its length; return whether `data` ends the reply."""
        at = 0
        while at < len(data) and not self._has_replied:
            head = data[at : at + _HEAD - len(self._head)]
            self._head += bytes(head)
            at += len(head)
            if len(self._head) < _HEAD:
                break
            size = int.from_bytes(self._head, "big")
            part = min(len(data) - at, (size & ~ITEM) - self._passed)
            at += part
            self._passed += part
            if self._passed == size & ~ITEM:
                self._head, self._passed = b"", 0
                self._has_replied = not size & ITEM
                if self._has_replied:
                    return True
        return False

    def read_records(self) -> tuple[list[bytes], bool]:
        """Return the guard's records that are complete now, and whether no more will come."""
        data = _read(self.status)
        self._said += data or b""
        return pipes.split_records(self._said), data == b""

    def descriptors(self) -> tuple[int, ...]:
        """Return every descriptor that is open for this child."""
        ends = (self.request, *(descriptor for descriptor, _ in self.outputs), self.value, self.status, self.files)
        return tuple(descriptor for descriptor in ends if descriptor is not None)


def fork(
    plan: dict[str, Any],
    *,
    slot: int | None,
    doors: Sequence[int],
    ahead: bool,
    half_started: bool,
    direct: DirectPipes | None,
) -> Child:
    """Fork a child with the isolation of `plan`; raise OSError when the kernel has no process or descriptors for it.

    A child on `direct` pipes gets those as the tool's; call/guard.py says when a child is `half_started`.
    """
    ours: list[int] = []
    brought: list[int] = list(direct.ends) if direct else []
    handed: list[int] = []
    try:
        plan["home"] = workdir.choose(plan)
        call_isolation.prepare(plan, doors=len(doors))
        handed = plan["handed"]
        is_templated = plan.get("template") is not None
        for door, number in zip(doors, plan["handed_doors"]) if is_templated else ():
            os.dup2(door, number, False)
        for number in handed[: len(brought)]:
            pipes.hand(brought.pop(0), number)
        for direction, number in zip(_OF_THE_GUARD, handed[-2:]) if direct else zip(_ALL_PIPES, handed):
            is_two_way = is_templated and number == handed[-2]
            near, far = _socket_pair() if is_two_way else os.pipe()[::direction]
            ours.append(near)
            pipes.hand(far, number)
            os.set_blocking(near, direction < 0)
        pid = guard.fork(plan, doors, ahead=ahead, half_started=half_started)
    except OSError:
        _close_all(ours)
        raise
    finally:
        _close_all(brought)
        pipes.take_back((*handed, *plan.get("handed_doors", ())))
    *tool_ends, status, files = ours
    child = Child(pid, status, files, slot=slot, home=plan["home"], ahead=ahead)
    child.is_templated = is_templated
    if direct:
        child.line = direct.id
    else:
        child.set_pipes(*tool_ends)
    return child


def _socket_pair() -> tuple[int, int]:
    near, far = socket.socketpair()
    return near.detach(), far.detach()


def _read(descriptor: int) -> bytes | None:
    """Return the available bytes, ``b""`` at the end, or None when nothing is available now."""
    try:
        return os.read(descriptor, _READ_SIZE)
    except BlockingIOError:
        return None


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
