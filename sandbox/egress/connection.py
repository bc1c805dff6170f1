"""A connection of a call: the proxy reads its request, refuses it or connects, and carries the bytes both ways.

A slow reader slows down the writer: in each direction one piece is under way, in addition to the buffers of the two
streams. The proxy closes an idle connection, and one whose request takes too long. A refusal names its reason, also in
the header field `x-sandbox-egress`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from sandbox.egress.destinations import Destinations, Far, Refused
from sandbox.egress.http_head import END_OF_HEAD, Head, Length, Malformed, announce_close, is_interim, read_head
from sandbox.egress.traffic import CallTraffic, Direction, Exhausted

_ASKING_S: Final = 10.0
_LINGERING_S: Final = 5.0
_PIECE: Final = 1 << 16
_MAX_DROPPED: Final = 1 << 20
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_TUNNEL_IS_OPEN: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Connection:
    """A connection from its first byte to its last."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        traffic: CallTraffic,
        destinations: Destinations,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._traffic = traffic
        self._destinations = destinations
        self._has_answered = False
        self._idle = asyncio.timeout(None)

    async def serve(self) -> None:
        """Serve the connection, and close everything at the end."""
        asked = ""
        try:
            self._traffic.open_connection()
            head = await self._read_head()
            if head is None:
                return
            asked = head.host
            await self._carry(head, await self._destinations.reach(head))
        except Malformed as malformed:
            await self._refuse(asked, Refused(400, "malformed", str(malformed)))
        except Exhausted as exhausted:
            await self._refuse(asked, Refused(429, "limit", str(exhausted)))
        except Refused as refused:
            await self._refuse(asked, refused)
        except OSError:  # the tool closed the connection
            return
        finally:
            self._writer.transport.abort()

    async def _read_head(self) -> Head | None:
        """Return the request's head; None for a connection without a request."""
        try:
            async with asyncio.timeout(_ASKING_S):
                return read_head(await self._reader.readuntil(END_OF_HEAD))
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return None
            raise Malformed("it ends before its head does") from None
        except asyncio.LimitOverrunError:
            raise Refused(431, "malformed", "its head is too long") from None
        except TimeoutError:
            raise Refused(408, "slow", "its head takes too long") from None

    async def _carry(self, head: Head, far: Far) -> None:
        """Carry bytes both ways, until the deciding side ends, a limit is met, or the connection is idle."""
        # A failure after the start of the answer can only break the answer off.
        failure: Refused | None = None
        try:
            async with asyncio.timeout(self._traffic.limits.idle) as self._idle, asyncio.TaskGroup() as ways:
                if head.is_tunnel:
                    self._has_answered = True
                    self._writer.write(_TUNNEL_IS_OPEN)
                    ways.create_task(self._pass_on(self._reader, far.writer, "sent"))
                    ways.create_task(self._pass_on(far.reader, self._writer, "received"))
                else:
                    asking = ways.create_task(self._ask(head, far))
                    await self._pass_on_answer(far.reader)
                    asking.cancel()
        except* Malformed as found:
            failure = Refused(400, "malformed", str(found.exceptions[0]))
        except* Exhausted as found:
            failure = Refused(429, "limit", str(found.exceptions[0]))
        except* (OSError, asyncio.IncompleteReadError):
            if not self._has_answered:
                failure = Refused(502, "unreachable", f"{head.host} closed the connection, or was silent for too long")
        finally:
            far.writer.transport.abort()
        if failure is not None:
            raise failure
        await self._linger()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction) -> None:
        while data := await reader.read(_PIECE):
            self._has_answered = self._has_answered or way == "received"
            await self._send(writer, data, way)
        writer.write_eof()
        self._moved()

    async def _pass_on_answer(self, reader: asyncio.StreamReader) -> None:
        """Pass on an answer that says in its head that the connection closes after it."""
        head, is_last = b"", False
        while not is_last:
            try:
                head = await reader.readuntil(END_OF_HEAD)
            except asyncio.IncompleteReadError as error:
                head = error.partial
            except asyncio.LimitOverrunError:  # too long for a head: the bytes are passed on as they are
                break
            is_last = not is_interim(head)
            self._has_answered = self._has_answered or bool(head)
            self._traffic.count("received", len(head))
            self._writer.write(announce_close(head))
            await self._writer.drain()
            self._moved()
        await self._pass_on(reader, self._writer, "received")

    async def _ask(self, head: Head, far: Far) -> None:
        await self._send(far.writer, far.head, "sent")
        async for piece in _body(self._reader, head.length):
            await self._send(far.writer, piece, "sent")

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, way: Direction) -> None:
        self._traffic.count(way, len(data))
        writer.write(data)
        await writer.drain()
        self._moved()

    def _moved(self) -> None:
        self._idle.reschedule(asyncio.get_running_loop().time() + self._traffic.limits.idle)

    async def _refuse(self, host: str, refused: Refused) -> None:
        self._traffic.refuse(host, refused.reason)
        if self._has_answered:
            return
        body = f"sandbox: {refused.message}\n".encode("utf-8", "replace")
        fields = {
            "x-sandbox-egress": refused.reason,
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(body)),
            "connection": "close",
        }
        lines = [f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}"]
        lines += [f"{name}: {text}" for name, text in fields.items()]
        self._writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await self._linger()

    async def _linger(self) -> None:
        """Wait until the tool has read the answer."""
        # To close a socket with unread bytes would discard the answer, so read and drop them.
        try:
            async with asyncio.timeout(_LINGERING_S):
                await self._writer.drain()
                self._writer.write_eof()
                dropped = 0
                while dropped < _MAX_DROPPED and (data := await self._reader.read(_PIECE)):
                    dropped += len(data)
        except (OSError, TimeoutError, RuntimeError):
            return


async def _body(reader: asyncio.StreamReader, length: Length) -> AsyncIterator[bytes]:
    """Yield the body of a request, and not a byte more."""
    if length != "chunked":
        async for piece in _exactly(reader, length):
            yield piece
        return
    while size := await _chunk_size(reader):
        yield b"%x\r\n" % size
        async for piece in _exactly(reader, size):
            yield piece
        await _line_end(reader)
        yield b"\r\n"
    await _line_end(reader)
    yield b"0\r\n\r\n"


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        data = await reader.read(min(size, _PIECE))
        if not data:
            raise Malformed("its body is shorter than it said")
        size -= len(data)
        yield data


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    try:
        found = _CHUNK_SIZE.fullmatch(await reader.readuntil(b"\r\n"))
    except asyncio.LimitOverrunError:
        found = None
    if found is None:
        raise Malformed("its body is not chunked as it said")
    return int(found[1], 16)


async def _line_end(reader: asyncio.StreamReader) -> None:
    if await reader.readexactly(2) != b"\r\n":
        raise Malformed("its body is not chunked as it said")
