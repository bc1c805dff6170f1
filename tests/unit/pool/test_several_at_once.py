"""Boxes with room for one call: how many open for waiting callers, and which caller gets which. In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.backends.base import Backend, Box, BoxPlan
from sandbox.errors import BackendUnavailable, EngineClosed
from sandbox.pool.pool import Pool
from sandbox.protocol.messages import NO_END
from sandbox.protocol.running_call import RunningCall
from tests.unit.pool.worlds import World, policy_with, pooled, settle, until


@pooled(capacity=1, at_once=8)
async def test_as_many_boxes_open_at_once_as_callers_wait(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    callers = [world.hold() for _ in range(5)]
    await settle()
    assert (world.opening.count, world.pool.statistics.opening) == (5, 5)
    world.opening.held_up.set()
    await settle()
    assert [caller.path for caller in callers] == ["cold"] * 5
    assert len({id(caller.lease and caller.lease.pooled) for caller in callers}) == 5
    for caller in callers:
        await caller.leave()


@pooled(capacity=1, at_once=2)
async def test_no_more_boxes_open_at_once_than_the_machine_can_take(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    callers = [world.hold() for _ in range(5)]
    await settle()
    assert world.opening.count == 2
    world.opening.held_up.set()
    await settle()
    assert [caller.path for caller in callers] == ["cold"] * 5
    for caller in callers:
        await caller.leave()


@pooled(capacity=1)
async def test_a_caller_takes_a_free_box_while_another_opens_for_it(world: World) -> None:
    first = world.hold()
    await settle()
    world.opening.held_up = asyncio.Event()
    second = world.hold()
    await settle()
    assert (second.path, world.opening.count) == (None, 2)
    await first.leave()
    await settle()
    assert second.path == "warm"
    await second.leave()


@pooled(capacity=1)
async def test_a_box_opened_without_need_is_warm_for_the_next_call(world: World) -> None:
    first = world.hold()
    await settle()
    world.opening.held_up = asyncio.Event()
    second = world.hold()
    await settle()
    await first.leave()
    world.opening.held_up.set()
    await settle()
    third = world.hold()
    await settle()
    assert (second.path, third.path) == ("warm", "warm")
    assert (world.opening.count, world.open_boxes) == (2, 2)
    await second.leave()
    await third.leave()


@pooled(capacity=1, at_once=2)
async def test_freed_boxes_spare_openings_that_have_not_begun(world: World) -> None:
    early = [world.hold() for _ in range(2)]
    await settle()
    world.opening.held_up = asyncio.Event()
    late = [world.hold() for _ in range(4)]
    await settle()
    for caller in early:
        await caller.leave()
    world.opening.held_up.set()
    await settle()
    assert sorted(caller.path or "" for caller in late) == ["cold", "cold", "warm", "warm"]
    assert world.opening.count == 4
    for caller in late:
        await caller.leave()


@pooled(capacity=1, at_once=8)
async def test_room_goes_to_the_longest_waiting_caller(world: World) -> None:
    first = world.hold()
    await settle()
    world.opening.held_up = asyncio.Event()
    waiting = [world.hold() for _ in range(3)]
    await settle()
    await first.leave()
    await settle()
    assert [caller.path for caller in waiting] == ["warm", None, None]
    await waiting[0].leave()
    await settle()
    assert [caller.path for caller in waiting] == ["warm", "warm", None]
    world.opening.held_up.set()
    for caller in waiting:
        await caller.leave()


@pooled(capacity=1, at_once=8)
async def test_each_box_that_fails_to_open_fails_one_caller(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    world.opening.failures = [BackendUnavailable("no room"), BackendUnavailable("no room")]
    callers = [world.hold() for _ in range(4)]
    await settle()
    world.opening.held_up.set()
    await settle()
    assert [caller.path for caller in callers] == [None, None, "cold", "cold"]
    for caller in callers[:2]:
        with pytest.raises(BackendUnavailable):
            await caller.task
    for caller in callers[2:]:
        await caller.leave()


@pooled(capacity=1, at_once=1)
async def test_a_caller_that_gives_up_leaves_its_turn_to_the_next(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    gone, patient = world.hold(), world.hold()
    await settle()
    gone.task.cancel()
    await settle()
    world.opening.held_up.set()
    await settle()
    assert (patient.path, world.opening.count) == ("cold", 1)
    await patient.leave()


@pooled(capacity=1)
async def test_a_box_handed_to_a_caller_that_gives_up_goes_to_the_next(world: World) -> None:
    async with world.lend():
        world.opening.held_up = asyncio.Event()
        gone, patient = world.hold(), world.hold()
        await settle()
    gone.task.cancel()  # the caller has just got the box, and has not run since
    await settle()
    assert (gone.task.cancelled(), gone.lease) == (True, None)
    assert patient.path == "warm"
    await patient.leave()
    assert [warm.leases for warm in world.pool.boxes] == [0]


@pooled(capacity=1)
async def test_a_caller_that_gives_up_while_its_box_fails_is_just_gone(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    world.opening.failures = [BackendUnavailable("no room")]
    gone = world.hold()
    await settle()
    world.opening.held_up.set()
    await until(lambda: not world.pool._queues[world.key()].line)
    gone.task.cancel()
    await settle()
    assert gone.task.cancelled()


class Untold(Backend):
    """A backend that does not report how much room its boxes have."""

    name = "untold"

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    async def open(self, plan: BoxPlan) -> Box:
        return await self._inner.open(plan)


@pooled(capacity=1)
async def test_the_room_of_boxes_is_learned_from_the_first(world: World) -> None:
    world.pool = Pool(Untold(world.backend), max_memory=1 << 40, max_opening=8)
    callers = [world.hold() for _ in range(4)]
    await settle()
    assert [caller.path for caller in callers] == ["cold"] * 4
    assert world.opening.count == 4
    await world.pool.close()
    await asyncio.gather(*(caller.leave() for caller in callers))


@pooled(capacity=1)
async def test_callers_that_relied_on_a_larger_box_are_not_forgotten(world: World) -> None:
    world.pool = Pool(Untold(world.backend), max_memory=1 << 40, max_opening=8)
    world.opening.held_up = asyncio.Event()
    callers = [world.hold() for _ in range(3)]
    await settle()
    assert world.opening.count == 1
    held_up, world.opening.held_up = world.opening.held_up, None
    await world.lend_once("another")
    world.opening.failures = [BackendUnavailable("no room")]
    held_up.set()
    await settle()
    assert [caller.path for caller in callers] == [None, "cold", "cold"]
    with pytest.raises(BackendUnavailable):
        await callers[0].task
    await world.pool.close()
    await asyncio.gather(*(caller.leave() for caller in callers[1:]))


@pooled(capacity=1, at_once=2)
async def test_tenants_take_turns_at_opening(world: World) -> None:
    theirs = policy_with(idle=1.0)
    world.opening.held_up = asyncio.Event()
    many = [world.hold("a") for _ in range(6)]
    await settle()
    other = world.hold("b", policy=theirs)
    await settle()
    world.opening.held_up.set()
    await settle()
    assert [box.plan.policy is theirs for box in world.backend.boxes].index(True) <= 3
    for caller in (*many, other):
        await caller.leave()


@pooled(capacity=1, at_once=2)
async def test_closing_fails_all_waiting_callers(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    callers = [world.hold() for _ in range(5)]
    await settle()
    await world.pool.close()
    found = await asyncio.gather(*(caller.task for caller in callers), return_exceptions=True)
    assert [type(error) for error in found] == [EngineClosed] * 5


@pooled(capacity=1)
async def test_a_box_lost_by_its_caller_does_not_delay_others(world: World) -> None:
    first = world.hold()
    await settle()
    second = world.hold()
    world.box().lose()
    await settle()
    assert second.path == "cold"
    await first.leave()
    await second.leave()


def _call_under_way() -> RunningCall:
    """Return a call whose caller has the outcome while its last process still runs."""
    loop = asyncio.get_running_loop()
    return RunningCall(1, lambda *_: 0, None, len, 1, ended=loop.create_future(), replied=loop.create_future())


@pooled(capacity=1)
async def test_a_returning_place_is_awaited_longer_where_boxes_open_slowly(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, world.opening.held_up.set)
    call = _call_under_way()
    async with world.lend() as lease:
        lease.call = call
    second = world.hold()
    await asyncio.sleep(0.2)
    assert world.opening.count == 1
    call.ended.set_result(NO_END)
    await settle()
    assert second.path == "warm"
    await second.leave()


@pooled(capacity=1)
async def test_a_place_that_does_not_return_is_not_awaited_endlessly(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    asyncio.get_running_loop().call_later(10.0, world.opening.held_up.set)
    call = _call_under_way()
    async with world.lend() as lease:
        lease.call = call
    second = world.hold()
    await asyncio.sleep(0.3)
    assert second.path == "cold"
    call.ended.set_result(NO_END)
    await second.leave()
