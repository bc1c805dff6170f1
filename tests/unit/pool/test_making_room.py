"""Idle boxes are closed when calls need their room."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from sandbox.errors import BackendUnavailable
from tests.unit.pool.worlds import World, pooled, settle

SHORTAGE = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _tenants(world: World) -> list[str]:
    """Return the tenants that have a box."""
    return [key.tenant for key, shelf in world.pool._queues.items() if shelf.boxes]


@pooled(boxes=2)
async def test_the_longest_idle_box_is_closed_for_one_too_many(world: World) -> None:
    for tenant in ("a", "b", "a", "c"):
        await world.lend_once(tenant)
        await asyncio.sleep(0.1)
    await settle()
    assert _tenants(world) == ["a", "c"]
    assert world.open_boxes == 2


@pooled(boxes=2)
async def test_boxes_in_use_stay_in_any_number_until_they_are_idle(world: World) -> None:
    callers = [world.hold(tenant) for tenant in "abcd"]
    await settle()
    assert world.open_boxes == 4
    for caller in callers:
        await caller.leave()
    await asyncio.sleep(2)
    assert world.open_boxes == 2


@pytest.mark.parametrize(
    "failure", [SHORTAGE, BackendUnavailable(f"the interpreter does not start: {SHORTAGE}")], ids=["raw", "told"]
)
def test_when_files_run_out_idle_boxes_are_closed_before_a_retry(failure: Exception) -> None:
    @pooled()
    async def scene(world: World) -> None:
        for tenant in "abc":
            await world.lend_once(tenant)
            await asyncio.sleep(0.1)
        world.opening.failures = [failure]
        await world.lend_once("d")
        assert _tenants(world) == ["b", "c", "d"]
        assert world.open_boxes == 3

    scene()


@pooled()
async def test_a_shortage_unrelated_to_boxes_is_reported(world: World) -> None:
    world.opening.failures = [BackendUnavailable(str(SHORTAGE))]
    with pytest.raises(BackendUnavailable, match="Too many open files"):
        await world.lend_once()


@pooled()
async def test_an_error_that_is_no_shortage_costs_no_idle_box(world: World) -> None:
    await world.lend_once("a")
    world.opening.failures = [BackendUnavailable("no such interpreter")]
    with pytest.raises(BackendUnavailable):
        await world.lend_once("b")
    assert _tenants(world) == ["a"]
