"""One container as a box: its channel is the way to its runner, its end is the container's removal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from sandbox.backends.base import Box, Protection
from sandbox.backends.container.fast_channel import Way
from sandbox.backends.container.meters import ContainerMeter, Facts, facts
from sandbox.backends.docker.link import DaemonLink
from sandbox.backends.pipes import ChildPipes
from sandbox.egress.traffic import Ledger
from sandbox.errors import BackendUnavailable
from sandbox.protocols import Reading, Receiver, Slot

if TYPE_CHECKING:
    from sandbox.egress.handoff_socket import Meeting

_MAX_LAST_WORDS: Final = 8192
_ABOUT: Final = 24 << 20
"""What a waiting container holds, where nobody can look."""
_PATIENCE_S: Final = 2.0
_PAUSE_S: Final = 0.05


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
        way: Way,
        *,
        protection: Protection,
        walls: Mapping[str, JsonValue],
        meter: ContainerMeter | None,
        last_words: LastWords,
        link: DaemonLink,
        meeting: Meeting | None = None,
    ) -> None:
        self.id = id
        self._meeting = meeting
        self.protection = protection
        self._way = way
        self._walls = walls
        self._meter = meter
        self._is_metered = False
        self._is_closed = False
        self._last_words = last_words
        self._link = link

    @property
    def walls(self) -> Mapping[str, JsonValue]:
        return self._walls

    def listen(self, receiver: Receiver) -> None:
        self._way.listen(receiver)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self._way.send(data, descriptors)

    async def all_sent(self) -> None:
        await self._way.all_sent()

    def open_pipes(self) -> ChildPipes | None:
        return self._way.open_pipes()

    def add_slots(self, count: int) -> Sequence[Slot]:
        """One for good: the container's control group counts for the one call that runs in it. What the runner took to
        start is no call's."""
        if self._meter is None or self._is_metered or self._is_closed or not count:
            return ()
        self._is_metered = True
        self._meter.renew()
        return (self._meter,)

    def count_from_now(self) -> bool:
        """What the runner does between calls, such as forking a child for the next, is used in the same group."""
        return self._meter is not None and self._meter.leave_out_what_was_used()

    def books(self, label: str) -> Ledger | None:
        return None if self._meeting is None else self._meeting.books(label)

    def last_words(self) -> str:
        return str(self._last_words)

    def memory_bytes(self) -> int:
        return _ABOUT

    async def last_reading(self) -> Reading:
        """A container whose streams have ended is ending: the daemon knows why only when it knows that. In one that
        goes on something was killed, of which the daemon may be told just now."""
        deadline = time.monotonic() + _PATIENCE_S
        with suppress(BackendUnavailable):
            known = await self._ask_for_facts(awaits_reason=not self._way.is_closed)
            while self._way.is_closed and known.status == "running" and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE_S)
                known = await self._ask_for_facts()
            return Reading(out_of_memory_kills=int(known.out_of_memory))
        return Reading()

    async def close(self) -> str:
        """A daemon that is gone removes nothing: its containers ended with the stream, and go once it is back."""
        self._way.close()
        self._is_closed = True
        if self._meter is not None and not self._is_metered:
            self._meter.close()
        if self._meeting is not None:
            await self._meeting.close()
        await asyncio.shield(self._link.remove_container(self.id))
        return str(self._last_words)

    async def _ask_for_facts(self, *, awaits_reason: bool = False) -> Facts:
        """With the counters comes the daemon's own time, without which it tells nothing of a container that runs."""
        question = partial(facts, container=self.id, awaits_reason=awaits_reason)
        return await self._link.ask("inspecting a container", question)
