"""`FakeBackend`: boxes in memory, for the tests of programs that use Sandbox. See `sandbox.testing`.

Everything happens on the event loop that uses it, in an order that depends on nothing but the order of the calls.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from sandbox.backends.base import Backend, Box, BoxPlan
from sandbox.policy import Layer
from sandbox.protocols import Reading, Receiver
from sandbox.testing.answers import Answer
from sandbox.testing.claims import claimed_protection, claimed_walls
from sandbox.testing.fake_call import FakeCall
from sandbox.testing.fake_runner import FakeRunner

Answers: TypeAlias = Mapping[str, Answer] | Callable[[str, dict[str, Any]], Answer]

_CAPACITY: Final = 32
_BOX_MEMORY: Final = 16 << 20
_COUNTERS: Final = {"memory": "memory_peak_bytes", "cpu": "cpu_s", "processes": "processes_peak"}


class FakeBackend(Backend):
    """Opens boxes in memory.

    `answers` maps a tool's function to what its calls lead to, or is one function `(name, arguments)` for all of them;
    a tool without an answer raises `LookupError` in its box. `missing` names layers that its boxes lack, `unfit` says
    why runners cannot import ahead, `opening` is awaited before a box opens and may raise. Requirements are
    checked, and neither resolved nor installed.
    """

    name = "fake"
    needs_environments = False

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        missing: Collection[str] = (),
        capacity: int = _CAPACITY,
        unfit: str = "",
        box_memory: int = _BOX_MEMORY,
        opening: Callable[[BoxPlan], Awaitable[None]] | None = None,
    ) -> None:
        unknown = sorted(set(missing) - set(Layer))
        if unknown:
            raise ValueError(f"there is no layer {unknown[0]!r}; there are: {', '.join(Layer)}")
        self._answers = {} if answers is None else answers
        self._opening = opening
        self.missing = frozenset(missing)
        self.capacity: int = capacity
        self.unfit = unfit
        self.box_memory = box_memory
        self.calls: list[FakeCall] = []
        """Every call that reached a box, in that order."""
        self.boxes: list[FakeBox] = []
        """Every box that was opened, also those that are closed."""

    @property
    def open_boxes(self) -> tuple[FakeBox, ...]:
        """The boxes that are open now."""
        return tuple(box for box in self.boxes if box.is_open)

    async def open(self, plan: BoxPlan) -> FakeBox:
        if self._opening is not None:
            await self._opening(plan)
        box = FakeBox(self, plan)
        self.boxes.append(box)
        return box

    def answer(self, call: FakeCall) -> Answer:
        """Return the answer to a call, or raise the error of the tool."""
        self.calls.append(call)
        if not isinstance(self._answers, Mapping):
            return self._answers(call.name, call.arguments)
        if call.name not in self._answers:
            raise LookupError(f"the fake has no answer for {call.name!r}: FakeBackend(answers={{{call.name!r}: …}})")
        found = self._answers[call.name]
        return found(**call.arguments) if callable(found) else found


class FakeSlot:
    """A slot that reports the usage of a script."""

    def __init__(self, id: int) -> None:
        self._id = id
        self.reading = Reading(cpu_s=0.0, memory_peak_bytes=0, processes_peak=1)
        self.is_closed = False

    @property
    def id(self) -> int:
        return self._id

    def open_cgroup_fds(self) -> Sequence[int]:
        return ()

    def read(self) -> Reading:
        return self.reading

    def renew(self) -> bool:
        self.reading = Reading(cpu_s=0.0, memory_peak_bytes=0, processes_peak=1)
        return True

    def close(self) -> None:
        self.is_closed = True


class FakeBox(Box):
    """A box in memory, opened by `FakeBackend.open`."""

    def __init__(self, backend: FakeBackend, plan: BoxPlan) -> None:
        self._backend = backend
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._runner = FakeRunner(self, walls=claimed_walls(plan.policy, missing=backend.missing), unfit=backend.unfit)
        self.plan = plan
        self.slots: dict[int, FakeSlot] = {}
        self.is_open = True
        self.capacity = backend.capacity
        self.protection = claimed_protection(plan.policy, missing=backend.missing)

    @property
    def walls(self) -> Mapping[str, JsonValue]:
        return {"box": {}, "call": {}, "slots": True}

    @property
    def preloaded(self) -> Sequence[str]:
        """The modules that its runner should import ahead."""
        return tuple(self._runner.preloaded)

    @property
    def ahead(self) -> int:
        """How many children its runner may fork ahead."""
        return self._runner.ahead

    @property
    def compiled(self) -> Sequence[tuple[str, str]]:
        """The tools that its runner should compile, each as its file and its text."""
        return tuple(self._runner.compiled)

    def listen(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self._loop.call_soon(self._hear, data)

    def add_slots(self, count: int) -> Sequence[FakeSlot]:
        new = [FakeSlot(len(self.slots) + number) for number in range(count)]
        self.slots.update({slot.id: slot for slot in new})
        return new

    def memory_bytes(self) -> int:
        return self._backend.box_memory if self.is_open else 0

    async def close(self) -> str:
        self.is_open = False
        tasks = self._runner.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ""

    def lose(self) -> None:
        """End as a box does whose runner was killed from outside."""
        self._loop.call_soon(self._hang_up)

    # The requests of its runner

    def say(self, data: bytes) -> None:
        """Hand it to the engine, later: a channel never answers within `send`."""
        self._loop.call_soon(self._deliver, data)

    def use(self, slot: int, reading: Reading) -> None:
        """Have the slot say this."""
        self.slots[slot].reading = reading

    def exceed(self, slot: int, limit: str) -> None:
        """Have the slot say that the limit was met, if it is one that slots count."""
        counter = _COUNTERS.get(limit)
        if counter is not None:
            reading = self.slots[slot].reading
            most = max(getattr(reading, counter) or 0, getattr(self.plan.policy.limits, limit))
            self.slots[slot].reading = reading._replace(**{counter: most})

    def answer(self, call: FakeCall) -> Answer:
        """Return the backend's answer to this call."""
        return self._backend.answer(call)

    def _hear(self, data: bytes) -> None:
        if self.is_open:
            self._runner.hear(data)

    def _deliver(self, data: bytes) -> None:
        if self.is_open and self._receiver is not None:
            self._receiver.received(data)

    def _hang_up(self) -> None:
        if self.is_open and self._receiver is not None:
            self.is_open = False
            self._receiver.closed()
