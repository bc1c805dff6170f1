"""Streaming: a call's output as events while the call runs, and its outcome as the last event.

The reader sets the pace. The runner gets new credit only for output that the reader has taken, so a tool that prints
faster waits in its own pipe. Output that came and was not taken yet is kept as one piece per stream, so a tool that
prints single characters costs no more than the credit. The items of a generator are paced in the same way, and their
number and bytes are bounded. The two streams are two pipes: their order is that of arrival while the reader keeps up,
and each stream always keeps its own order.

If the policy lets calls go on without their reader, an event counts the output that the reader did not take in time.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic_core import from_json

from sandbox.client.loop_thread import end_task
from sandbox.engine.engine import Engine
from sandbox.engine.replies import MAX_PARTS, aside_when_large, count_parts
from sandbox.engine.streams import StreamListener, unpaced
from sandbox.outcome import Json, Outcome
from sandbox.protocol.frames import Stream
from sandbox.spec import CallSpec
from sandbox.threads import Threads

_MAX_UNPACED: Final = 1 << 20
_NAMES: Final[dict[Stream, Literal["stdout", "stderr"]]] = {Stream.STDOUT: "stdout", Stream.STDERR: "stderr"}


@dataclass(frozen=True, slots=True)
class Printed:
    """Some text that the tool printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """An item that a generator yielded. All items together are the value in the end.

    At most ten thousand items come, and together no more bytes than a value may have.
    """

    value: Json


@dataclass(frozen=True, slots=True)
class Finished:
    """The call is over; always the last event."""

    outcome: Outcome


Event = Printed | Progress | Finished


@dataclass(slots=True)
class _Piece:
    """Output of one stream that was not taken yet."""

    stream: Stream
    grant: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)
    skipped: int = 0
    """Bytes after the data that were not kept."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a generator that was not taken yet."""

    data: bytes
    grant: Callable[[], None]


class _Untaken:
    """The events that wait for the reader, in order: items, and between two of them at most one piece per stream."""

    def __init__(self) -> None:
        self._waiting: deque[_Piece | _Item] = deque()
        self._growing: dict[Stream, _Piece] = {}
        self._changed = asyncio.Event()
        self._is_over = False
        self._unpaced = 0

    def put(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None:
        """Keep some output. The latest `grant` knows the pace for the whole piece."""
        piece = self._growing.get(stream)
        if piece is None:
            piece = self._growing[stream] = _Piece(stream, grant)
            self._waiting.append(piece)
        piece.grant = grant
        if grant is unpaced and (piece.skipped or self._unpaced + len(data) > _MAX_UNPACED):
            piece.skipped += len(data)
        else:
            piece.data += data
            self._unpaced += len(data) if grant is unpaced else 0
        self._changed.set()

    def put_item(self, item: bytes, grant: Callable[[], None]) -> None:
        """Keep an item. Output that comes later is taken later."""
        self._growing.clear()
        self._waiting.append(_Item(item, grant))
        self._changed.set()

    def end(self) -> None:
        """Note that no more events come."""
        self._is_over = True
        self._changed.set()

    async def take(self) -> _Piece | _Item | None:
        """Return what has waited longest, or None after the last."""
        while not self._waiting and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        if not self._waiting:
            return None
        taken = self._waiting.popleft()
        if isinstance(taken, _Piece):
            self._unpaced -= len(taken.data) if taken.grant is unpaced else 0
            if self._growing.get(taken.stream) is taken:
                del self._growing[taken.stream]
        return taken


async def stream_call(begin: Callable[[], tuple[Engine, CallSpec]]) -> AsyncGenerator[Event]:
    """Yield the events of one call.

    `begin` runs when the first event is wanted. Leaving the iteration early cancels the call.
    """
    engine, spec = begin()
    untaken = _Untaken()
    call = asyncio.create_task(engine.run(spec, StreamListener(untaken.put, untaken.put_item)))
    call.add_done_callback(lambda _: untaken.end())
    decoders = {stream: getincrementaldecoder("utf-8")("replace") for stream in _NAMES}
    try:
        while (taken := await untaken.take()) is not None:
            if isinstance(taken, _Item):
                if (item := await _item(taken.data, engine.threads)) is not None:
                    yield item
                taken.grant()
                continue
            if text := decoders[taken.stream].decode(taken.data):
                yield Printed(_NAMES[taken.stream], text)
            if taken.skipped:
                yield Printed(_NAMES[taken.stream], f"\n[… {taken.skipped} bytes passed over: not read in time …]\n")
            taken.grant(len(taken.data))
        outcome = await call
        for stream, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield Printed(_NAMES[stream], rest)
        yield Finished(outcome)
    except asyncio.CancelledError as cancelled:
        cause = await end_task(call)
        if cause is None:
            raise
        raise cancelled from cause
    finally:
        await end_task(call)


async def _item(text: bytes, threads: Threads) -> Progress | None:
    """Return the event of an item, or None for a forged one: not JSON, or too much of it."""
    return await aside_when_large(lambda: _read_item(text), size=len(text), threads=threads)


def _read_item(text: bytes) -> Progress | None:
    if len(text) > MAX_PARTS and count_parts(text) > MAX_PARTS:
        return None
    try:
        return Progress(from_json(text, allow_inf_nan=False))
    except ValueError:
        return None
