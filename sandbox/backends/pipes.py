"""Direct pipes between the engine and the process of one call, on the event loop.

The engine makes the pipes, so its ends are separate open files: no process in a box can make its reads or writes block.
All incoming bytes come from a tool. The engine reads them in pieces, leaves them in the pipe while it is busy, and
never interprets them. The kernel bounds the size of a pipe, so emptying one ends even while a tool fills it.

A process may die between its `ready` and its call. The engine keeps a copy of the process's end of the request pipe,
and reads the bytes there that the process did not read. A byte that the engine reads is missing in the process's
request, so the engine knows for certain that such a call never started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from sandbox.protocols import OnOutput, OutputName

_READ_SIZE: Final = 1 << 16
_OPENED_BY_NAME: Final = 0o622
"""The mode of outputs, which a process of any user may open by name, for example as /dev/stderr."""
_MAX_HELD: Final = 1 << 20
"""The largest size that a tool can give to a pipe."""


class ChildPipes:
    """The pipes of a call; the constructor raises `OSError` if no descriptors are free."""

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
        """Pass on a piece, and return its size."""
        # The process sends nothing before its call, so an event before the call means that the process has ended.
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
        room = _MAX_HELD
        while room > 0 and descriptor in self._live:
            size = self._hear(descriptor)
            room = room - size if size else 0

    def _begin(self, data: bytes) -> bool:
        """Send the data as the pipe takes it; return False if the process is gone."""
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
        """Send as much as the pipe takes now; return False if the process is gone."""
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
        # The box reports a process that ends before it has the whole request.
        if not self._send() or not self._unsent:
            self._unsent = memoryview(b"")
            self._takes_more.set()
            self._loop.remove_writer(self._request)


def open_child_pipes(id: int) -> ChildPipes | None:
    """Return new pipes; None if no descriptors are free, so that the call goes through the runner."""
    try:
        return ChildPipes(id)
    except OSError:
        return None


def _open_pipes() -> tuple[list[int], list[int]]:
    """Return the near and the far ends of request, stdout, stderr and value.

    The near ends also hold the far end of the request a second time, after its near end.
    """
    # The second far end is a separate open file, because a box can change the flags of its own.
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
    """Return the available bytes; None if none are available."""
    try:
        return os.read(descriptor, _READ_SIZE)
    except BlockingIOError:
        return None
