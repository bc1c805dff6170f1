"""Streaming: a call's output as events while it runs, and its outcome as the last one.

The reader sets the pace. What it has not taken is not granted to the runner again, so a tool that prints faster than
its output is read waits in its own pipe. What came and was not taken yet is kept as one piece per stream, so that a
tool which prints a character at a time costs no more than what may be under way at once. What a generator gives is
paced in the same way, and bounded: there are only so many items, and so many bytes of them. The two streams are two
pipes: the order between them is that of arrival while the reader keeps up, and each keeps its own order always.

Where the policy has calls go on without their reader, what it does not take in time is counted, and told in its place.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic_core import from_json

from sandbox.client.loop_thread import cut_short
from sandbox.engine.engine import Engine
from sandbox.engine.replies import MOST_PARTS, aside_when_large, count_parts
from sandbox.engine.streams import StreamListener, unpaced
from sandbox.outcome import Json, Outcome
from sandbox.protocol.frames import Stream
from sandbox.spec import CallSpec
from sandbox.threads import Threads

_MOST_UNPACED: Final = 1 << 20
_NAMES: Final[dict[Stream, Literal["stdout", "stderr"]]] = {Stream.STDOUT: "stdout", Stream.STDERR: "stderr"}


@dataclass(frozen=True, slots=True)
class Printed:
    """Some text the tool printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """An item that a tool gave which gives many, a generator; all of them together are the value in the end.

    The first ten thousand come, as far as they are no larger together than a value may be."""

    value: Json


@dataclass(frozen=True, slots=True)
class Finished:
    """The call is over; always the last event."""

    outcome: Outcome


Event = Printed | Progress | Finished


@dataclass(slots=True)
class _Piece:
    """What came of one stream and was not taken yet."""

    stream: Stream
    grant: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)
    passed_over: int = 0
    """Bytes behind the data that were not kept."""


@dataclass(frozen=True, slots=True)
class _Item:
    """What a generator gave, and was not taken yet."""

    data: bytes
    grant: Callable[[], None]


class _Untaken:
    """What waits for the reader, in the order in which it came: items, of which there are only so many, and between
    two of them at most one piece per stream."""

    def __init__(self) -> None:
        self._waiting: deque[_Piece | _Item] = deque()
        self._growing: dict[Stream, _Piece] = {}
        self._changed = asyncio.Event()
        self._is_over = False
        self._unpaced = 0

    def put(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None:
        """Keep what came; the last `grant` knows the pace for all of it."""
        piece = self._growing.get(stream)
        if piece is None:
            piece = self._growing[stream] = _Piece(stream, grant)
            self._waiting.append(piece)
        piece.grant = grant
        if grant is unpaced and (piece.passed_over or self._unpaced + len(data) > _MOST_UNPACED):
            piece.passed_over += len(data)
        else:
            piece.data += data
            self._unpaced += len(data) if grant is unpaced else 0
        self._changed.set()

    def put_item(self, item: bytes, grant: Callable[[], None]) -> None:
        """Keep an item; what is printed after it is taken after it."""
        self._growing.clear()
        self._waiting.append(_Item(item, grant))
        self._changed.set()

    def end(self) -> None:
        """Nothing more will come."""
        self._is_over = True
        self._changed.set()

    async def take(self) -> _Piece | _Item | None:
        """What has waited longest; None after the last."""
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
    """The events of one call, with whom and what for is asked when the first is wanted; leaving the iteration early
    cancels the call."""
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
            if taken.passed_over:
                yield Printed(
                    _NAMES[taken.stream], f"\n[… {taken.passed_over} bytes passed over: not read in time …]\n"
                )
            taken.grant(len(taken.data))
        outcome = await call
        for stream, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield Printed(_NAMES[stream], rest)
        yield Finished(outcome)
    except asyncio.CancelledError as cancelled:
        vars(cancelled).update(await cut_short(call))
        raise
    finally:
        await cut_short(call)


async def _item(text: bytes, threads: Threads) -> Progress | None:
    """The event of one item; what is no JSON, or too much of it, was forged, and is left out."""
    return await aside_when_large(lambda: _read_item(text), size=len(text), threads=threads)


def _read_item(text: bytes) -> Progress | None:
    if len(text) > MOST_PARTS and count_parts(text) > MOST_PARTS:
        return None
    try:
        return Progress(from_json(text, allow_inf_nan=False))
    except ValueError:
        return None
