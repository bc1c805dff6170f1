"""A pool over a fake backend, in virtual time; what a test leaves open fails it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from sandbox.backends.base import BoxPlan
from sandbox.environments import bare_environment
from sandbox.policy import Policy, ReuseMode, load
from sandbox.pool import BoxKey, Loan, Pool
from sandbox.testing import FakeBackend, FakeBox
from tests import virtual_time

POLICY = load("default")


def policy_with(**reuse: Any) -> Policy:
    return POLICY.model_copy(update={"reuse": POLICY.reuse.model_copy(update=reuse)})


SINGLE_USE = policy_with(mode=ReuseMode.NEVER)


@dataclass
class Opening:
    """What happens when a box is to be opened: it may be held up, and may fail."""

    held_up: asyncio.Event | None = None
    failures: list[Exception] = field(default_factory=list)
    count: int = 0

    async def __call__(self, plan: BoxPlan) -> None:
        self.count += 1
        if self.held_up is not None:
            await self.held_up.wait()
        if self.failures:
            raise self.failures.pop(0)


@dataclass
class World:
    """A pool over a fake backend."""

    backend: FakeBackend
    pool: Pool
    opening: Opening

    async def lend_once(self, tenant: str = "", **plan: Any) -> Loan:
        async with self.lend(tenant, **plan) as loan:
            return loan

    def lend(
        self, tenant: str = "", *, policy: Policy = POLICY, preload: tuple[str, ...] = ()
    ) -> AbstractAsyncContextManager[Loan]:
        plan = BoxPlan(policy, bare_environment(), preload=preload)
        return self.pool.lend(BoxKey("environment", policy.digest, tenant), plan)

    @property
    def open_boxes(self) -> int:
        return len(self.backend.open_boxes)

    def box(self, number: int = 0) -> FakeBox:
        return self.backend.boxes[number]


def pooled(
    *, memory: int = 1 << 40, **backend: Any
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Run the test with a pool, close it, and see that every box is closed."""

    def decorate(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def live() -> None:
            opening = Opening()
            fake = FakeBackend(opening=opening, **backend)
            world = World(fake, Pool(fake, most_memory=memory), opening)
            await test(world)
            await world.pool.close()
            assert fake.open_boxes == ()
            assert all(slot.is_closed for box in fake.boxes for slot in box.slots.values())

        def run() -> None:
            virtual_time.run(live())

        run.__name__ = getattr(test, "__name__", "test")
        run.__module__ = test.__module__
        return run

    return decorate


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")
