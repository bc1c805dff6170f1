"""Frames: the format of bytes on the channel, on the runner's side.

A frame is ``length:u32  kind:u8  payload`` in network order; `length` counts the kind and the payload.

    kind 1, MESSAGE   payload is one JSON object with a "type"
    kind 2, CHUNK     payload is ``call:u32  stream:u8  data``: bytes of one stream of one call, never interpreted here

The engine has its own reader of the same format, which trusts nothing. The same golden vectors test both.
"""

from __future__ import annotations

import struct

from box import fast_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PROTOCOL = 1
MESSAGE, CHUNK = 1, 2
REQUEST, STDOUT, STDERR, VALUE, ISOLATION, FILES = 0, 1, 2, 3, 4, 5
MAX_FRAME = 1 << 20
BUFFER = MAX_FRAME + (1 << 16)

_HEAD = struct.Struct(">IB")
_CHUNK_HEAD = struct.Struct(">IBIB")
_CHUNK = struct.Struct(">IB")


class FrameError(Exception):
    """The engine sent bytes that are not a frame, so no answer is possible."""


def message(kind: str, **fields: Any) -> bytes:
    """Return the frame of a message."""
    fields["type"] = kind
    payload = fast_json.write(fields).encode("ascii")
    return _HEAD.pack(len(payload) + 1, MESSAGE) + payload


def chunk_head(call: int, stream: int, size: int) -> bytes:
    """Return the head of a frame with that many bytes of a call's stream."""
    return _CHUNK_HEAD.pack(size + 6, CHUNK, call, stream)


def chunk(call: int, stream: int, data: bytes) -> bytes:
    """Return the frame of a piece of a call's stream."""
    return chunk_head(call, stream, len(data)) + data


class FrameReader:
    """Turns bytes into frames in one buffer; the payload of a chunk is a view of it, valid until the next `room`."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._start = self._end = 0

    def room(self) -> memoryview:
        """Return the space for the next bytes, which is never empty."""
        if self._start:
            held = self._end - self._start
            self._buffer[:held] = self._buffer[self._start : self._end]
            self._start, self._end = 0, held
        return self._buffer[self._end :]

    def feed(self, count: int) -> Iterator[tuple[int, Any]]:
        """Take that many bytes from the space; yield complete frames, ``(MESSAGE, dict)`` or ``(CHUNK, (call, stream,
        data))``."""
        self._end += count
        while self._end - self._start >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._buffer, self._start)
            if not 1 <= length <= MAX_FRAME:
                raise FrameError("a frame of %d bytes" % length)
            end = self._start + 4 + length
            if end > self._end:
                return
            payload = self._buffer[self._start + _HEAD.size : end]
            self._start = end
            yield kind, _payload(kind, payload)


def read_message(receive: Callable[[int], bytes]) -> dict[str, Any]:
    """Return the first message of a channel, reading exactly its bytes: later frames are for the zygote's reader."""
    length, kind = _HEAD.unpack(_exactly(receive, _HEAD.size))
    if kind != MESSAGE or not 1 <= length <= MAX_FRAME:
        raise FrameError("the channel does not begin with a message")
    message: dict[str, Any] = _payload(kind, _exactly(receive, length - 1))
    return message


def _exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = receive(size - len(data))
        if not more:
            raise FrameError("the channel closed in the middle of a frame")
        data += more
    return data


def _payload(kind: int, payload: bytes | memoryview) -> Any:
    if kind == MESSAGE:
        return fast_json.read(str(payload, "utf-8", "surrogatepass"))
    if kind == CHUNK and len(payload) >= _CHUNK.size:
        return (*_CHUNK.unpack_from(payload), payload[_CHUNK.size :])
    raise FrameError("a frame of unknown kind %d" % kind)
