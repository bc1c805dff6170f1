"""A pool counts its boxes and calls, and both facades show the counts."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from sandbox import AsyncSandbox, EngineClosed, Sandbox
from sandbox.pool.pool import PoolStatistics
from sandbox.testing import FakeBackend
from tests.unit.pool.worlds import SINGLE_USE, World, pooled, settle

TOOL = "def tool():\n    pass\n"
NOTHING = PoolStatistics(warm=0, ready=0, opening=0, lent=0, cold_calls=0, pooled_calls=0, warm_calls=0)


@pooled()
async def test_an_unused_pool_counts_nothing(world: World) -> None:
    assert world.pool.statistics == NOTHING
    assert (NOTHING.calls, NOTHING.hit_rate) == (0, 0.0)


@pooled()
async def test_each_box_is_counted_once_in_its_state(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    await world.lend_once("idle")
    async with world.lend("busy"), world.lend("busy"), world.lend(policy=SINGLE_USE):
        world.opening.held_up = asyncio.Event()
        waiting = world.hold("opening")
        await settle()
        now = world.pool.statistics
        assert (now.warm, now.ready, now.opening, now.lent) == (1, 1, 1, 2)
        world.opening.held_up.set()
        await waiting.leave()


@pooled()
async def test_calls_are_counted_by_the_origin_of_their_box(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    await world.prepare("a")
    for _ in range(3):
        await world.lend_once("a")
    await world.lend_once("b")
    await world.lend_once(policy=SINGLE_USE)
    counted = world.pool.statistics
    assert (counted.cold_calls, counted.pooled_calls, counted.warm_calls) == (1, 1, 3)
    assert (counted.calls, counted.hit_rate) == (5, 0.8)


def test_both_facades_show_the_counts() -> None:
    async def asked() -> PoolStatistics:
        async with AsyncSandbox(backend=FakeBackend({"tool": 1})) as engine:
            await engine.run(TOOL)
            return await engine.statistics()

    with Sandbox(backend=FakeBackend({"tool": 1})) as engine:
        engine.run(TOOL)
        told = engine.statistics()
    for each in (told, asyncio.run(asked())):
        assert (each.warm + each.lent, each.cold_calls, each.calls) == (1, 1, 1)


def test_both_facades_ask_in_the_same_way() -> None:
    ours, theirs = (inspect.signature(each.statistics) for each in (Sandbox, AsyncSandbox))
    assert ours == theirs


def test_a_closed_engine_refuses_to_count() -> None:
    with Sandbox(backend=FakeBackend()) as engine:
        pass
    with pytest.raises(EngineClosed):
        engine.statistics()
