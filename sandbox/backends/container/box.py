"""One container as a box: its channel is the attached stream, its end is the container's removal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import Box, Protection
from sandbox.backends.container.attach import AttachStream
from sandbox.ports import Receiver, Slot

_MAX_LAST_WORDS: Final = 8192
_ABOUT: Final = 24 << 20
"""What a waiting container holds, where nobody can look."""


class LastWords:
    """The end of what the runner wrote for people to read; it never grows."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """It wrote more."""
        self._kept = (self._kept + data)[-_MAX_LAST_WORDS:]

    def __str__(self) -> str:
        return self._kept.decode("utf-8", "replace")


class ContainerBox(Box):
    """Around a container that was started; its maker says what protects it."""

    capacity = 1

    def __init__(
        self,
        id: str,
        stream: AttachStream,
        *,
        protection: Protection,
        walls: Mapping[str, JsonValue],
        meter: Slot | None,
        last_words: LastWords,
        remove: Callable[[str], Awaitable[None]],
    ) -> None:
        self.id = id
        self.protection = protection
        self._stream = stream
        self._walls = walls
        self._meter = meter
        self._is_metered = False
        self._last_words = last_words
        self._remove = remove

    @property
    def walls(self) -> Mapping[str, JsonValue]:
        return self._walls

    def listen(self, receiver: Receiver) -> None:
        self._stream.listen(receiver)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        for descriptor in descriptors:  # a stream carries none
            os.close(descriptor)
        self._stream.send(data)

    def add_slots(self, count: int) -> Sequence[Slot]:
        """One for good: the container's control group counts for the one call that runs in it."""
        if self._meter is None or self._is_metered or not count:
            return ()
        self._is_metered = True
        return (self._meter,)

    def last_words(self) -> str:
        return str(self._last_words)

    def memory_bytes(self) -> int:
        return _ABOUT

    async def close(self) -> str:
        self._stream.close()
        await asyncio.shield(self._remove(self.id))
        return str(self._last_words)
