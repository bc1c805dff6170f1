"""Callers that come, give up, and lose their boxes in any order: no box is forgotten, and none is leased too often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from sandbox.backends.base import BoxPlan
from sandbox.errors import BackendUnavailable, SandboxError
from sandbox.policy import ReuseMode
from sandbox.pool.box import PooledBox
from tests.unit.pool.worlds import World, policy_with, pooled

CALLERS: Final = 40
IDLE_S: Final = 20.0
REUSED: Final = policy_with(idle=IDLE_S)
SINGLE_USE: Final = policy_with(mode=ReuseMode.NEVER, idle=IDLE_S)


@dataclass
class Story:
    """A course of events that is the same for each seed."""

    random: Random
    world: World
    used: set[PooledBox] = field(default_factory=set)

    async def tell(self) -> None:
        self.world.backend._opening = self._opening
        callers = [asyncio.create_task(self._caller()) for _ in range(CALLERS)]
        for _ in range(CALLERS):
            await self._pause()
            if self.random.random() < 0.5:
                self._lose_a_box()
            else:
                self._send_away(callers)
        await asyncio.wait(callers)
        assert all(task.cancelled() or task.exception() is None for task in callers)

    async def _opening(self, plan: BoxPlan) -> None:
        await self._pause()
        if self.random.random() < 0.1:
            raise BackendUnavailable("no room")

    async def _caller(self) -> None:
        await self._pause()
        tenant, policy = self.random.choice("ab"), self.random.choice([REUSED, SINGLE_USE])
        with suppress(SandboxError):
            if self.random.random() < 0.1:
                await self.world.prepare(tenant, policy=policy)
                return
            async with self.world.lend(tenant, policy=policy) as lease:
                self._look_at(lease.pooled)
                await self._pause()
                lease.pooled.is_retired = lease.pooled.is_retired or self.random.random() < 0.1

    def _look_at(self, warm: PooledBox) -> None:
        is_single_use = warm.policy.reuse.mode is ReuseMode.NEVER
        assert 1 <= warm.leases <= (1 if is_single_use else warm.box.capacity)
        assert not (is_single_use and warm in self.used)
        assert not warm.is_closing
        self.used.add(warm)

    async def _pause(self) -> None:
        """Pass a few steps of the loop, or some time."""
        if self.random.random() < 0.4:
            await asyncio.sleep(self.random.choice([0.01, 0.02, 0.1]))
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)

    def _send_away(self, callers: list[asyncio.Task[None]]) -> None:
        """Give up on a waiting caller, often in the very moment in which it gets a box."""
        present = [caller for caller in callers if not caller.done()]
        if present:
            self.random.choice(present).cancel()

    def _lose_a_box(self) -> None:
        boxes = self.world.backend.open_boxes
        if boxes:
            self.random.choice(boxes).lose()


@pytest.mark.parametrize("capacity", [1, 2, 32])
@pytest.mark.parametrize("number", range(25))
def test_every_box_is_leased_kept_or_closed_for_any_order_of_events(number: int, capacity: int) -> None:
    @pooled(capacity=capacity, at_once=1 + number % 4)
    async def live(world: World) -> None:
        await Story(Random(number), world).tell()
        await asyncio.sleep(2)
        now = world.pool.statistics
        assert (now.lent, now.opening) == (0, 0)
        assert now.warm + now.ready == world.open_boxes == len(world.pool.boxes)
        await asyncio.sleep(3 * IDLE_S)
        assert world.open_boxes == 0

    live()


@pytest.mark.parametrize("number", range(25))
def test_closing_in_the_middle_leaves_nothing(number: int) -> None:
    @pooled(capacity=1, at_once=1 + number % 4)
    async def live(world: World) -> None:
        story = Story(Random(number), world)
        telling = asyncio.create_task(story.tell())
        for _ in range(number % 5):
            await story._pause()
        await world.pool.close()
        await telling
        assert world.open_boxes == 0

    live()
