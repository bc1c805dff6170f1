"""Frames: bytes from a box become messages and chunks, or a `ProtocolError`.

A frame is ``length:u32  kind:u8  payload`` in network order; `length` counts the kind and the payload.

    kind 1, MESSAGE   payload is one JSON object with a "type"
    kind 2, CHUNK     payload is ``call:u32  stream:u8  data``: bytes of one stream of one call

Nothing here does I/O, so all backends share it, and golden vectors and a fuzzer test it. All bytes from a box count as
hostile: the length is checked before a byte is kept, so a reader never holds more than one frame, and anything that is
not a frame is an error at once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from sandbox.errors import ProtocolError

PROTOCOL = 1
MAX_FRAME = 1 << 20
MAX_CHUNK = 1 << 18

_HEAD = struct.Struct(">IB")
_CHUNK_HEAD = struct.Struct(">IBIB")
_CHUNK = struct.Struct(">IB")
_SIZE = struct.Struct(">Q")
_MESSAGE_KIND, _CHUNK_KIND = 1, 2


class Stream(IntEnum):
    """The stream of a call that a chunk belongs to."""

    REQUEST = 0
    STDOUT = 1
    STDERR = 2
    VALUE = 3
    WALLS = 4
    FILES = 5


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some bytes of one stream of a call."""

    call: int
    stream: Stream
    data: bytes


def pack_message(fields: Mapping[str, object]) -> bytes:
    """Return a JSON message as the bytes of its frame."""
    payload = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(len(payload) + 1, _MESSAGE_KIND) + payload


def pack_chunk(chunk: Chunk) -> bytes:
    """Return a chunk as the bytes of its frame."""
    return _CHUNK_HEAD.pack(len(chunk.data) + 6, _CHUNK_KIND, chunk.call, chunk.stream) + chunk.data


def pack_sized(data: bytes) -> bytes:
    """Return a part of what a call's process reads, behind its length."""
    return _SIZE.pack(len(data)) + data


def pack_request(call: int, data: bytes) -> bytes:
    """Return a call's whole request as frames."""
    starts = range(0, len(data), MAX_CHUNK)
    return b"".join(pack_chunk(Chunk(call, Stream.REQUEST, data[start : start + MAX_CHUNK])) for start in starts)


class FrameReader:
    """Bytes in, frames out. After a `ProtocolError` the reader is spent: the box must go."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def held(self) -> int:
        """The number of bytes that wait for the rest of their frame."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[bytes | Chunk]:
        """Yield the frames that are complete now: a message as its JSON text, or a chunk."""
        self._held += data
        start = 0
        try:
            while len(self._held) - start >= _HEAD.size:
                length, kind = _HEAD.unpack_from(self._held, start)
                _check(length, kind)
                end = start + 4 + length
                if len(self._held) < end:
                    return
                payload = bytes(memoryview(self._held)[start + _HEAD.size : end])
                start = end
                yield payload if kind == _MESSAGE_KIND else _chunk(payload)
        except ProtocolError:
            start = len(self._held)
            raise
        finally:
            del self._held[:start]


def _check(length: int, kind: int) -> None:
    if not 1 <= length <= MAX_FRAME:
        raise ProtocolError(f"a box sent a frame of {length} bytes; 1 to {MAX_FRAME} are allowed")
    if kind not in (_MESSAGE_KIND, _CHUNK_KIND):
        raise ProtocolError(f"a box sent a frame of unknown kind {kind}")


def _chunk(payload: bytes) -> Chunk:
    if len(payload) < _CHUNK.size:
        raise ProtocolError(f"a box sent a chunk of {len(payload)} bytes, too short for its head")
    call, stream = _CHUNK.unpack_from(payload)
    if stream not in Stream.__members__.values():
        raise ProtocolError(f"a box sent a chunk of unknown stream {stream}")
    return Chunk(call, Stream(stream), payload[_CHUNK.size :])
