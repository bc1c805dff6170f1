"""The engine's end of a line: pipes to and from the process of one call, on the event loop.

The engine makes the pipes, so the open files of its own ends are its own: nobody in a box can make its reads or writes
block. Everything read here comes from a tool. It is read in pieces, left in the pipe while it is not wanted, and never
looked at. A pipe holds at most what the kernel lets a user give it, so emptying one ends even while a tool fills it.

A process may die between its `ready` and its call. Its end of the request's pipe is open here as well, so what it did
not read can be read here: whoever gets a byte keeps the other from having the whole request. So it is known, not
guessed, that such a call never started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from sandbox.protocols import OnOutput, OutputName

_READ_SIZE: Final = 1 << 16
_OPENED_BY_NAME: Final = 0o622
"""Who has an output may open it as /dev/stderr, say, to write there, whichever user that is."""
_MOST_HELD: Final = 1 << 20
"""What a pipe holds when a tool makes it as large as it may."""


class ChildPipes:
    """One line; making it raises `OSError` when there are no descriptors for it."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.is_open = True
        self._loop = asyncio.get_running_loop()
        (self._request, self._unread, stdout, stderr, self._value), self._far = _open_pipes()
        self._outputs: dict[int, OutputName] = {stdout: "stdout", stderr: "stderr"}
        self._live = {stdout, stderr, self._value}
        self._awaited: set[int] = set()
        self._on_output: OnOutput | None = None
        self._on_reply: Callable[[bytes], None] | None = None
        self._unsent = memoryview(b"")
        self._size = self._sent = 0
        self._takes_more = asyncio.Event()

    def take_child_fds(self) -> list[int]:
        far, self._far = self._far, []
        return far

    def watch(self) -> None:
        for descriptor in (self._value, *self._outputs):
            self._await(descriptor)

    def call(self, request: bytes, *, on_output: OnOutput, on_reply: Callable[[bytes], None]) -> bool:
        self._on_output, self._on_reply = on_output, on_reply
        self._size = len(request)
        return self._begin(request)

    async def feed(self, data: bytes) -> None:
        await self._takes_more.wait()
        self._begin(data)
        await self._takes_more.wait()

    def pause(self) -> None:
        for descriptor in self._outputs:
            self._forget(descriptor)

    def resume(self) -> None:
        if self.is_open:
            for descriptor in self._outputs:
                self._await(descriptor)

    def pause_reply(self) -> None:
        self._forget(self._value)

    def resume_reply(self) -> None:
        if self.is_open:
            self._await(self._value)

    def empty_outputs(self) -> None:
        for descriptor in self._outputs:
            self._empty(descriptor)

    def empty(self) -> None:
        self.empty_outputs()
        self._empty(self._value)

    def retract(self) -> bool:
        if not self.is_open:
            return False
        while unread := _read(self._unread):
            self._sent -= len(unread)
        return self._sent < self._size

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        for descriptor in (self._value, *self._outputs):
            self._forget(descriptor)
        self._loop.remove_writer(self._request)
        self._takes_more.set()
        for descriptor in (self._request, self._unread, self._value, *self._outputs, *self.take_child_fds()):
            os.close(descriptor)

    def _await(self, descriptor: int) -> None:
        if descriptor in self._live and descriptor not in self._awaited:
            self._awaited.add(descriptor)
            self._loop.add_reader(descriptor, self._hear, descriptor)

    def _forget(self, descriptor: int) -> None:
        if descriptor in self._awaited:
            self._awaited.remove(descriptor)
            self._loop.remove_reader(descriptor)

    def _hear(self, descriptor: int) -> int:
        """Hand over one piece; how large it was. Nothing of ours speaks before the call, and who ends then is gone."""
        data = _read(descriptor) if self.is_open else None
        if data is None:
            return 0
        if self._on_output is None or self._on_reply is None:
            self.close()
        elif not data:
            self._live.discard(descriptor)
            self._forget(descriptor)
        elif descriptor == self._value:
            self._on_reply(data)
        else:
            self._on_output(self._outputs[descriptor], data)
        return len(data)

    def _empty(self, descriptor: int) -> None:
        room = _MOST_HELD
        while room > 0 and descriptor in self._live:
            size = self._hear(descriptor)
            room = room - size if size else 0

    def _begin(self, data: bytes) -> bool:
        """Send all of it, as the pipe takes it; False when nobody is there."""
        self._unsent = memoryview(data)
        if not self.is_open or not self._send():
            return False
        if self._unsent:
            self._takes_more.clear()
            self._loop.add_writer(self._request, self._send_on)
        else:
            self._takes_more.set()
        return True

    def _send(self) -> bool:
        """What the pipe takes now; False when nobody is there."""
        try:
            written = os.write(self._request, self._unsent)
            self._sent += written
            self._unsent = self._unsent[written:]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _send_on(self) -> None:
        """A process that goes before it has the whole request is reported by its box."""
        if not self._send() or not self._unsent:
            self._unsent = memoryview(b"")
            self._takes_more.set()
            self._loop.remove_writer(self._request)


def open_child_pipes(id: int) -> ChildPipes | None:
    """None where there are no descriptors left; calls go through the runner then."""
    try:
        return ChildPipes(id)
    except OSError:
        return None


def _open_pipes() -> tuple[list[int], list[int]]:
    """Near and far ends of request, stdout, stderr and value; behind the near end of the first, its far end once more:
    as another open file, because the flags of one that a box has are not to be trusted."""
    near: list[int] = []
    far: list[int] = []
    try:
        for is_request in (True, False, False, False):
            reading, writing = os.pipe()
            near.append(writing if is_request else reading)
            far.append(reading if is_request else writing)
            os.set_blocking(near[-1], False)
            if is_request:
                near.append(os.open(f"/proc/self/fd/{reading}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        for output in near[2:4]:
            os.fchmod(output, _OPENED_BY_NAME)
    except OSError:
        for descriptor in (*near, *far):
            os.close(descriptor)
        raise
    return near, far


def _read(descriptor: int) -> bytes | None:
    """What is there now; None when nothing is."""
    try:
        return os.read(descriptor, _READ_SIZE)
    except BlockingIOError:
        return None
