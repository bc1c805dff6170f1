"""A container as a box: from the channel to its runner to the container's removal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from sandbox.backends.base import Box, Protection
from sandbox.backends.container.docker.link import DaemonLink
from sandbox.backends.container.fast_channel import RunnerChannel
from sandbox.backends.container.meters import ContainerFacts, ContainerMeter, container_facts
from sandbox.backends.pipes import ChildPipes
from sandbox.egress.traffic import CallTraffic
from sandbox.errors import BackendUnavailable
from sandbox.protocols import Reading, Receiver, Slot

if TYPE_CHECKING:
    from sandbox.egress.handoff_socket import HandoffSocket

_MAX_LAST_WORDS: Final = 8192
_USUAL_MEMORY: Final = 24 << 20
"""The usual memory of a waiting container, for containers that are not measured."""
_PATIENCE_S: Final = 2.0
_PAUSE_S: Final = 0.05


class LastWords:
    """The end of the runner's stderr, with a bounded size."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """Append data."""
        self._kept = (self._kept + data)[-_MAX_LAST_WORDS:]

    def __str__(self) -> str:
        return self._kept.decode("utf-8", "replace")


class ContainerBox(Box):
    """A box around a started container."""

    capacity = 1

    def __init__(
        self,
        id: str,
        channel: RunnerChannel,
        *,
        protection: Protection,
        walls: Mapping[str, JsonValue],
        meter: ContainerMeter | None,
        last_words: LastWords,
        link: DaemonLink,
        handoff_socket: HandoffSocket | None = None,
    ) -> None:
        self.id = id
        self._handoff_socket = handoff_socket
        self.protection = protection
        self._channel = channel
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
        self._channel.listen(receiver)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self._channel.send(data, descriptors)

    async def all_sent(self) -> None:
        await self._channel.all_sent()

    def open_pipes(self) -> ChildPipes | None:
        return self._channel.open_pipes()

    def add_slots(self, count: int) -> Sequence[Slot]:
        # A single slot for good: the container's control group counts for the one call that runs in it. The start of
        # the runner counts for no call.
        if self._meter is None or self._is_metered or self._is_closed or not count:
            return ()
        self._is_metered = True
        self._meter.renew()
        return (self._meter,)

    def count_from_now(self) -> bool:
        # The same group counts the runner's work between calls, such as forking a child for the next one.
        return self._meter is not None and self._meter.leave_out_what_was_used()

    def traffic(self, label: str) -> CallTraffic | None:
        return None if self._handoff_socket is None else self._handoff_socket.traffic(label)

    def last_words(self) -> str:
        return str(self._last_words)

    def memory_bytes(self) -> int:
        return _USUAL_MEMORY

    async def last_reading(self) -> Reading:
        # A container whose streams have ended is ending, and the daemon knows the reason once it knows the end. In a
        # container that goes on, the daemon may be learning of a killed process just now.
        deadline = time.monotonic() + _PATIENCE_S
        with suppress(BackendUnavailable):
            known = await self._ask_for_facts(awaits_reason=not self._channel.is_closed)
            while self._channel.is_closed and known.status == "running" and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE_S)
                known = await self._ask_for_facts()
            return Reading(out_of_memory_kills=int(known.out_of_memory))
        return Reading()

    async def close(self) -> str:
        # A daemon that is gone removes nothing now. Its containers ended with the stream, and are removed later.
        self._channel.close()
        self._is_closed = True
        if self._meter is not None and not self._is_metered:
            self._meter.close()
        if self._handoff_socket is not None:
            await self._handoff_socket.close()
        await asyncio.shield(self._link.remove_container(self.id))
        return str(self._last_words)

    async def _ask_for_facts(self, *, awaits_reason: bool = False) -> ContainerFacts:
        # With the counters comes the daemon's time, which the search for a running container's kills needs.
        question = partial(container_facts, container=self.id, awaits_reason=awaits_reason)
        return await self._link.ask("inspecting a container", question)
