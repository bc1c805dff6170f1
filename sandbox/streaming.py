"""Streaming: a call's output as events while it runs, and its outcome as the last one.

The reader sets the pace. What it has not taken is not granted to the runner again, so a tool that prints faster than
its output is read waits in its own pipe, and nothing here grows beyond what may be under way at once.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
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


async def stream_call(engine: Engine, spec: CallSpec) -> AsyncIterator[Event]:
    """The events of one call; leaving the iteration early cancels the call."""
    pieces: asyncio.Queue[tuple[Stream, bytes, Callable[[int], None]] | None] = asyncio.Queue()
    call = asyncio.create_task(engine.run(spec, lambda *piece: pieces.put_nowait(piece)))
    call.add_done_callback(lambda _: pieces.put_nowait(None))
    decoders = {stream: getincrementaldecoder("utf-8")("replace") for stream in _NAMES}
    try:
        while (piece := await pieces.get()) is not None:
            stream, data, grant = piece
            text = decoders[stream].decode(data)
            if text:
                yield Printed(_NAMES[stream], text)
            grant(len(data))
        outcome = await call
        for stream, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield Printed(_NAMES[stream], rest)
        yield Finished(outcome)
    finally:
        if not call.done():
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
