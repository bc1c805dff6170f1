"""The attach stream of a container, which every daemon offers.

`POST /containers/<id>/attach` turns its connection into the container's standard streams. The daemon passes sent bytes
to standard input unchanged, and cuts the output into pieces, each behind eight bytes with its stream and its length::

    1 | 2 · 0 · 0 · 0 · length, four bytes

The connection is one of our own, not the SDK's, whose sockets block, so that every read would take a thread. When the
connection ends, for example because the engine died, the daemon closes the container's standard input, and the runner
ends itself.

The reverse does not hold. A daemon that still has data for a container that has ended (a whole runner, for a Python
that read none of it) never ends the stream. So if the container's first process is on this machine, its end, or the
daemon's word about its end, ends the stream after a quiet moment.
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
_MAX_HEAD: Final = 1 << 14
_SWITCHED: Final = (101, 200)
_PATIENCE_S: Final = 30.0
_QUIET_S: Final = 1.0


class AttachStream(asyncio.Protocol):
    """The streams of a container: stdout goes to a receiver, stderr to `on_stderr`."""

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
        """Wait until the daemon has switched to the streams; raise `BackendUnavailable` if it does not."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._is_switched
        except TimeoutError as error:
            remedy = "read the daemon's own log"
            raise BackendUnavailable(
                "the Docker daemon took too long for attaching a container", remedy=remedy
            ) from error

    async def first(self, size: int) -> bytes:
        """Take the first bytes of stdout; fewer, if stdout ends or is silent for long."""
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
        """Return whether either side has closed the stream."""
        return self._is_closed

    def end_with(self, init: int, *, on_end: Callable[[], None] = lambda: None) -> None:
        """End the stream when the container's first process ends; 0: it has ended already.

        The stream calls `on_end` at once, while the container's control group still exists.
        """
        try:
            self._init = os.pidfd_open(init) if init else None
        except ProcessLookupError:
            self._init = None
        except OSError:  # no descriptor is free: the daemon reports the end, or a timeout passes
            return
        if self._init is None:
            self._note_end(on_end)
        else:
            asyncio.get_running_loop().add_reader(self._init, self._note_end, on_end)

    def listen(self, receiver: Receiver) -> None:
        """Pass everything on to the receiver, from now on."""
        self._receiver = receiver
        if self._early:
            receiver.received(bytes(self._early))
            self._early.clear()
        if self._is_closed:
            receiver.closed()

    def send(self, data: bytes) -> None:
        """Queue data for standard input, or drop it if the stream is gone."""
        if self._transport is not None and not self._is_closed:
            self._transport.write(data)

    async def all_sent(self) -> None:
        """Wait until the queue is short, or the stream is gone."""
        await self._takes_more.wait()

    def close(self) -> None:
        """Close the stream."""
        self._is_closed = True
        self._forget_init()
        self._takes_more.set()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> None:
        """Send the request for the streams."""
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
            self._is_switched.set_exception(
                BackendUnavailable("the daemon closed the connection before the container was attached")
            )
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
        # The last output of the container may still be on its way.
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
        """Return the data after the answer's head; nothing before the head is complete."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(self._head) < _MAX_HEAD:
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
        """Pass on the contents of the pieces, which may arrive cut anywhere."""
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
    """Return the streams of a container, before or after its start."""
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
