"""Spool a stream into the store as it comes, in case that not all of it is shown.

A short stream stays in memory, and most streams are never written. A thread writes longer streams, piece by piece. The
feeder may ask whether the spool `is_behind`, and be called when it has caught up: then a tool that prints faster than
the disk writes waits in its own pipe, and nothing grows here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from sandbox.errors import ArtifactsUnavailable
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.store import QuotaReached
from sandbox.outputs.artifacts.writer import ArtifactWriter, PartialArtifact

_HELD: Final = 1 << 18
_BEHIND: Final = 1 << 21


class StreamSpool:
    """A stream, used on one event loop; in the end it is either kept or dropped."""

    def __init__(self, writer: ArtifactWriter) -> None:
        self._writer = writer
        self._waiting = bytearray()
        self._pending: PartialArtifact | None = None
        self._writing: asyncio.Task[None] | None = None
        self._on_written: list[Callable[[], None]] = []
        self._fault: str | None = None

    @property
    def is_behind(self) -> bool:
        """Whether more came than should wait."""
        return len(self._waiting) > _BEHIND

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        if self._fault is None:
            self._waiting += data
            if len(self._waiting) > _HELD and self._writing is None:
                self._writing = asyncio.create_task(self._write())

    def when_written(self, act: Callable[[], None]) -> None:
        """Call that once what waits now has been written."""
        self._on_written.append(act)

    async def keep(self, name: str) -> Artifact | None:
        """Return the whole stream, kept; None where that is not possible, and `fault` says why."""
        await self._settle()
        artifact = await self._writer.threads.do(partial(self._keep, name)) if self._fault is None else None
        await self.drop()
        return artifact

    async def drop(self) -> None:
        """Drop the stream, and what was written of it."""
        await self._settle()
        pending, self._pending = self._pending, None
        self._waiting.clear()
        if pending is not None:
            await self._writer.threads.do(pending.drop)

    @property
    def fault(self) -> str | None:
        """Why it could not be kept."""
        return self._fault

    async def _settle(self) -> None:
        while self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._waiting and self._fault is None:
            data, self._waiting = self._waiting, bytearray()
            self._fault = await self._writer.threads.do(partial(self._put, data))
            waiting, self._on_written = self._on_written, []
            for act in waiting:
                act()
        self._writing = None

    def _put(self, data: bytearray) -> str | None:
        """Write it; what went wrong, if anything did."""
        try:
            if self._pending is None:
                self._pending = self._writer.begin()
            with memoryview(data) as view:
                self._pending.write(view)
        except (ArtifactsUnavailable, OSError) as error:
            return str(error)
        return None

    def _keep(self, name: str) -> Artifact | None:
        self._fault = self._put(self._waiting)
        if self._fault is not None or self._pending is None:
            return None
        try:
            return self._pending.keep(name)
        except QuotaReached:
            self._fault = "the tenant's artifacts have reached their quota"
        except (ArtifactsUnavailable, OSError) as error:
            self._fault = str(error)
        return None
