"""A box with a maximum age is not leased after it, however busy, and no call is cut short. In virtual time."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.unit.pool.worlds import World, policy_with, pooled

GOOD_FOR_S: Final = 100.0
LASTING: Final = policy_with(idle=10_000.0)


@pooled()
async def test_a_box_in_constant_use_is_replaced_at_its_maximum_age(world: World) -> None:
    assert (await world.lend_once()).path == "cold"
    world.box().good_for_s = GOOD_FOR_S
    for _ in range(9):
        await asyncio.sleep(GOOD_FOR_S / 10)
        assert (await world.lend_once()).path == "warm"
    await asyncio.sleep(GOOD_FOR_S / 10)
    assert (await world.lend_once()).path == "cold"
    assert len(world.backend.boxes) == 2


@pooled()
async def test_a_call_in_an_old_box_ends_there(world: World) -> None:
    async with world.lend(policy=LASTING) as lease:
        world.box().good_for_s = GOOD_FOR_S
        await asyncio.sleep(2 * GOOD_FOR_S)
        assert (await world.lend_once(policy=LASTING)).path == "cold"
        assert world.box().is_open
    assert lease.pooled.is_closing
    assert (await world.lend_once(policy=LASTING)).path == "warm"


@pooled()
async def test_an_idle_box_is_closed_at_its_maximum_age(world: World) -> None:
    await world.lend_once(policy=LASTING)
    world.box().good_for_s = GOOD_FOR_S
    await asyncio.sleep(GOOD_FOR_S + 2)
    assert world.open_boxes == 0


@pooled()
async def test_a_box_without_a_maximum_age_is_kept(world: World) -> None:
    await world.lend_once(policy=LASTING)
    await asyncio.sleep(GOOD_FOR_S + 2)
    assert (await world.lend_once(policy=LASTING)).path == "warm"
