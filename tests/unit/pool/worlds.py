"""A pool over a fake backend, in virtual time; boxes that a test leaves open fail that test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox.backends.base import BoxPlan, ImageGone
from sandbox.environments import bare_environment
from sandbox.policy import Policy, ReuseMode, load
from sandbox.pool.box import Lease
from sandbox.pool.pool import Pool
from sandbox.pool.queue import BoxKey
from sandbox.protocols import BoxImage
from sandbox.testing import FakeBackend, FakeBox
from tests import virtual_time

POLICY = load("default")


def policy_with(**reuse: Any) -> Policy:
    return POLICY.model_copy(update={"reuse": POLICY.reuse.model_copy(update=reuse)})


SINGLE_USE = policy_with(mode=ReuseMode.NEVER)


@dataclass
class Opening:
    """Instructions for the next opening of a box: a delay, and an error, such as that of a missing image."""

    held_up: asyncio.Event | None = None
    gone: BoxImage | None = None
    failures: list[Exception] = field(default_factory=list)
    count: int = 0

    async def __call__(self, plan: BoxPlan) -> None:
        self.count += 1
        if self.held_up is not None:
            await self.held_up.wait()
        if self.gone is not None and plan.interpreter.image == self.gone:
            raise ImageGone("No such image")
        if self.failures:
            raise self.failures.pop(0)


@dataclass
class World:
    """A pool over a fake backend."""

    backend: FakeBackend
    pool: Pool
    opening: Opening

    async def lend_once(self, tenant: str = "", **plan: Any) -> Lease:
        async with self.lend(tenant, **plan) as lease:
            return lease

    def lend(
        self,
        tenant: str = "",
        *,
        policy: Policy = POLICY,
        preload: tuple[str, ...] = (),
        image: BoxImage | None = None,
    ) -> AbstractAsyncContextManager[Lease]:
        return self.pool.lease(*_asked_for(tenant, policy, preload, image))

    async def prepare(self, tenant: str = "", *, policy: Policy = POLICY, preload: tuple[str, ...] = ()) -> None:
        await self.pool.prepare(*_asked_for(tenant, policy, preload))

    def key(self, tenant: str = "", *, policy: Policy = POLICY) -> BoxKey:
        return _asked_for(tenant, policy, ())[0]

    def hold(self, tenant: str = "", **plan: Any) -> Caller:
        """Start a caller that keeps its box until it is released."""
        return Caller(self, tenant, plan)

    @property
    def open_boxes(self) -> int:
        return len(self.backend.open_boxes)

    def box(self, number: int = 0) -> FakeBox:
        return self.backend.boxes[number]


class Caller:
    """A caller that asks for a box, holds it, and leaves when released."""

    def __init__(self, world: World, tenant: str, plan: dict[str, Any]) -> None:
        self._leave = asyncio.Event()
        self.lease: Lease | None = None
        self.task = asyncio.create_task(self._stay(world, tenant, plan))

    async def _stay(self, world: World, tenant: str, plan: dict[str, Any]) -> None:
        async with world.lend(tenant, **plan) as self.lease:
            await self._leave.wait()

    @property
    def path(self) -> str | None:
        """Return how the caller got its box, or None without a box."""
        return None if self.lease is None else self.lease.path

    async def leave(self) -> None:
        self._leave.set()
        await self.task


def _asked_for(
    tenant: str, policy: Policy, preload: tuple[str, ...], image: BoxImage | None = None
) -> tuple[BoxKey, BoxPlan]:
    environment = replace(bare_environment(), image=image)
    return BoxKey("environment", policy.digest, tenant), BoxPlan(policy, environment, preload=preload)


def pooled(
    *, memory: int = 1 << 40, at_once: int = 8, boxes: int | None = None, **backend: Any
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Run the test with a pool, close it, and check that every box is closed and every error was handled."""

    def decorate(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def live() -> None:
            unheard: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, said: unheard.append(said))
            opening = Opening()
            fake = FakeBackend(opening=opening, **backend)
            world = World(fake, Pool(fake, max_memory=memory, max_opening=at_once, max_boxes=boxes), opening)
            await test(world)
            await world.pool.close()
            assert fake.open_boxes == ()
            assert all(slot.is_closed for box in fake.boxes for slot in box.slots.values())
            assert unheard == []

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
