"""Streaming: a call's output as events while it runs, and its outcome as the last one.

The reader sets the pace. What it has not taken is not granted to the runner again, so a tool that prints faster than
its output is read waits in its own pipe. What came and was not taken yet is kept as one piece per stream, so that a
tool which prints a character at a time costs no more than what may be under way at once. The two streams are two pipes:
the order between them is that of arrival while the reader keeps up, and each keeps its own order always.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from sandbox.engine import Engine
from sandbox.outcome import Outcome
from sandbox.spec import CallSpec
from sandbox.wire.frames import Stream

_NAMES: Final[dict[Stream, Literal["stdout", "stderr"]]] = {Stream.STDOUT: "stdout", Stream.STDERR: "stderr"}


@dataclass(frozen=True, slots=True)
class Printed:
    """Some text the tool printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The call is over; always the last event."""

    outcome: Outcome


Event = Printed | Finished


@dataclass(slots=True)
class _Piece:
    """What came of one stream and was not taken yet."""

    grant: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)


class _Untaken:
    """What waits for the reader, at most one piece per stream."""

    def __init__(self) -> None:
        self._pieces: dict[Stream, _Piece] = {}
        self._changed = asyncio.Event()
        self._is_over = False

    def put(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None:
        """Keep what came; the last `grant` knows the pace for all of it."""
        piece = self._pieces.setdefault(stream, _Piece(grant))
        piece.grant = grant
        piece.data += data
        self._changed.set()

    def end(self) -> None:
        """Nothing more will come."""
        self._is_over = True
        self._changed.set()

    async def take(self) -> tuple[Stream, _Piece] | None:
        """The piece that has waited longest; None after the last."""
        while not self._pieces and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        if not self._pieces:
            return None
        stream = next(iter(self._pieces))
        return stream, self._pieces.pop(stream)


async def stream_call(engine: Engine, spec: CallSpec) -> AsyncGenerator[Event]:
    """The events of one call; leaving the iteration early cancels the call."""
    untaken = _Untaken()
    call = asyncio.create_task(engine.run(spec, untaken.put))
    call.add_done_callback(lambda _: untaken.end())
    decoders = {stream: getincrementaldecoder("utf-8")("replace") for stream in _NAMES}
    try:
        while (taken := await untaken.take()) is not None:
            stream, piece = taken
            if text := decoders[stream].decode(piece.data):
                yield Printed(_NAMES[stream], text)
            piece.grant(len(piece.data))
        outcome = await call
        for stream, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield Printed(_NAMES[stream], rest)
        yield Finished(outcome)
    finally:
        call.cancel()
        await asyncio.wait([call])
        if not call.cancelled():
            call.exception()  # a reader that leaves does not ask how the call ended
