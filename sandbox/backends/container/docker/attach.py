"""The way to a container that every daemon has: its attach stream, taken over as it is.

`POST /containers/<id>/attach` turns its connection into the container's standard streams. What is sent goes to
standard input as it is; what comes back is cut into pieces, each behind eight bytes that say which stream it is of, and
how long::

    1 | 2 · 0 · 0 · 0 · length, four bytes

The connection is one of our own and not the SDK's, whose sockets block, and whose every read would take a thread. When
it ends, be it because the engine died, the daemon closes the container's standard input, and the runner ends itself.

The other way round that is not so. A daemon that still has something to send to a container which has ended (all of a
runner, to a Python that read none of it) waits for ever. Where the container's first process is one of this machine's,
its end, or the daemon's word of it, is therefore taken for the stream's, once nothing comes any more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from sandbox.backends.container.docker.address import Address
from sandbox.errors import BackendUnavailable
from sandbox.protocols import Receiver

_STDERR: Final = 2
_HEADER: Final = 8
_MOST_HEAD: Final = 1 << 14
_SWITCHED: Final = (101, 200)
_PATIENCE_S: Final = 30.0
_QUIET_S: Final = 1.0


class AttachStream(asyncio.Protocol):
    """One container's streams; hands what comes on stdout to a receiver, and what comes on stderr to `on_stderr`."""

    def __init__(self, *, on_stderr: Callable[[bytes], None]) -> None:
        self._on_stderr = on_stderr
        self._receiver: Receiver | None = None
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._is_switched = asyncio.get_running_loop().create_future()
        self._early = bytearray()
        self._came = asyncio.Event()
        self._partial_header = b""
        self._kind, self._left = 0, 0
        self._is_closed = False
        self._init: int | None = None
        self._received = 0
        self._takes_more = asyncio.Event()
        self._takes_more.set()

    async def switched(self) -> None:
        """Wait until the daemon has handed the streams over; `BackendUnavailable` when it does not."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._is_switched
        except TimeoutError as error:
            remedy = "see what the daemon's own log says"
            raise BackendUnavailable(
                "the Docker daemon took too long for attaching a container", remedy=remedy
            ) from error

    async def first(self, size: int) -> bytes:
        """The first bytes of stdout, which nobody else gets then; fewer, when it ends or nothing comes for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while len(self._early) < size and not self._is_closed:
                    self._came.clear()
                    await self._came.wait()
        taken = bytes(self._early[:size])
        del self._early[:size]
        return taken

    @property
    def is_closed(self) -> bool:
        """Whether either side has hung up."""
        return self._is_closed

    def end_with(self, init: int, *, on_end: Callable[[], None] = lambda: None) -> None:
        """Have the stream end when that process does, which is the container's first; 0: it has ended. `on_end` is told
        at once, while what the daemon keeps of the container is there."""
        try:
            self._init = os.pidfd_open(init) if init else None
        except ProcessLookupError:
            self._init = None
        except OSError:  # there is no descriptor to be had: the daemon will tell, or patience ends
            return
        if self._init is None:
            self._note_end(on_end)
        else:
            asyncio.get_running_loop().add_reader(self._init, self._note_end, on_end)

    def listen(self, receiver: Receiver) -> None:
        """Hand everything on, from now on."""
        self._receiver = receiver
        if self._early:
            receiver.received(bytes(self._early))
            self._early.clear()
        if self._is_closed:
            receiver.closed()

    def send(self, data: bytes) -> None:
        """Queue for standard input; dropped when the stream is gone."""
        if self._transport is not None and not self._is_closed:
            self._transport.write(data)

    async def all_sent(self) -> None:
        """Wait until only a little is queued any more, or nobody is there to take it."""
        await self._takes_more.wait()

    def close(self) -> None:
        """Hang up."""
        self._is_closed = True
        self._forget_init()
        self._takes_more.set()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> None:
        """Send the one request that is made here."""
        assert self._transport is not None
        self._transport.write(request)

    def pause_writing(self) -> None:
        self._takes_more.clear()

    def resume_writing(self) -> None:
        self._takes_more.set()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if not self._is_switched.done():
            data = self._read_head(data)
        if data:
            self._take_apart(data)

    def connection_lost(self, _: Exception | None) -> None:
        if not self._is_switched.done():
            self._is_switched.set_exception(BackendUnavailable("the daemon hung up before the container was attached"))
        was_closed, self._is_closed = self._is_closed, True
        self._forget_init()
        self._takes_more.set()
        self._came.set()
        if self._receiver is not None and not was_closed:
            self._receiver.closed()

    def _note_end(self, on_end: Callable[[], None]) -> None:
        self._forget_init()
        on_end()
        self._end_when_quiet(-1)

    def _end_when_quiet(self, received: int) -> None:
        """What the container said last may be on its way still."""
        if self._received != received:
            asyncio.get_running_loop().call_later(_QUIET_S, self._end_when_quiet, self._received)
        elif self._transport is not None:
            self._transport.abort()

    def _forget_init(self) -> None:
        if self._init is not None:
            asyncio.get_running_loop().remove_reader(self._init)
            os.close(self._init)
            self._init = None

    def _read_head(self, data: bytes) -> bytes:
        """What follows the answer's head; nothing before the head is whole."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(self._head) < _MOST_HEAD:
            return b""
        self._head = b""
        words = head.split(None, 2)
        if len(words) > 1 and words[1].isdigit() and int(words[1]) in _SWITCHED:
            self._is_switched.set_result(None)
            return rest
        said = (head.partition(b"\r\n")[0] + b" " + rest)[:500].decode("utf-8", "replace")
        self._is_switched.set_exception(BackendUnavailable(f"the daemon did not attach the container: {said}"))
        self.close()
        return b""

    def _take_apart(self, data: bytes) -> None:
        """Hand on what is in the pieces; they are cut anywhere."""
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._read_header(view)
                continue
            part, view = view[: self._left], view[self._left :]
            self._left -= len(part)
            self._hand_on(bytes(part))

    def _read_header(self, view: memoryview) -> memoryview:
        missing = _HEADER - len(self._partial_header)
        header = self._partial_header + bytes(view[:missing])
        if len(header) < _HEADER:
            self._partial_header = header
            return view[len(view) :]
        self._partial_header = b""
        self._kind, self._left = header[0], int.from_bytes(header[4:], "big")
        return view[missing:]

    def _hand_on(self, data: bytes) -> None:
        if self._kind == _STDERR:
            self._on_stderr(data)
        elif self._receiver is None:
            self._early += data
            self._came.set()
        else:
            self._receiver.received(data)


async def attach(address: Address, container: str, *, on_stderr: Callable[[bytes], None]) -> AttachStream:
    """The streams of a container, which need not have been started."""
    stream = AttachStream(on_stderr=on_stderr)
    await address.connect(lambda: stream)
    query = "stream=1&stdin=1&stdout=1&stderr=1"
    stream.ask(_request(f"/containers/{container}/attach?{query}", host=address.name))
    try:
        await stream.switched()
    except BaseException:
        stream.close()
        raise
    return stream


def _request(path: str, *, host: str) -> bytes:
    lines: Sequence[str] = (
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        "Upgrade: tcp",
        "Content-Length: 0",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")
