"""Warm boxes are leased again or not, and each box is closed exactly once. In virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sandbox.backends.base import BoxPlan
from sandbox.errors import BackendUnavailable, BoxLost, CallNotStarted, EngineClosed, IsolationUnavailable
from sandbox.policy import Layer, ReuseMode
from sandbox.pool.box import PooledBox
from sandbox.protocol.frames import pack_message
from sandbox.testing import FakeBox, hangs
from tests.unit.pool.worlds import POLICY, SINGLE_USE, World, policy_with, pooled, settle, until

REQUEST = b'{"entry":"tool","arguments":{},"source":"","environment":{},"value_limit":1}'


# Leasing


@pooled()
async def test_a_box_is_leased_again(world: World) -> None:
    leases = [await world.lend_once() for _ in range(3)]
    assert [lease.path for lease in leases] == ["cold", "warm", "warm"]
    assert len({id(lease.pooled) for lease in leases}) == len(world.backend.boxes) == 1


@pooled()
async def test_boxes_are_kept_apart_by_tenant_and_by_policy(world: World) -> None:
    other = policy_with(ahead=0)
    leases = [
        await world.lend_once("a"),
        await world.lend_once("b"),
        await world.lend_once("a", policy=other),
        await world.lend_once("a"),
    ]
    assert [lease.path for lease in leases] == ["cold", "cold", "cold", "warm"]


@pooled()
async def test_calls_share_a_box_as_long_as_it_has_room(world: World) -> None:
    world.backend.capacity = 2
    async with world.lend() as first, world.lend() as second, world.lend() as third:
        assert first.pooled is second.pooled
        assert third.pooled is not first.pooled
        assert len(world.backend.boxes) == 2


@pooled()
async def test_no_more_children_wait_than_may_have_calls_at_once(world: World) -> None:
    policies = {"kept": policy_with(ahead=3), "single use": policy_with(ahead=3, mode=ReuseMode.NEVER)}
    found = {}
    for capacity in (1, 8):
        world.backend.capacity = capacity
        for name, policy in policies.items():
            async with world.lend(str(capacity), policy=policy) as lease:
                assert isinstance(lease.pooled.box, FakeBox)
                found[name, capacity] = lease.pooled.box.ahead
    assert found == {("kept", 1): 1, ("kept", 8): 3, ("single use", 1): 1, ("single use", 8): 1}


@pooled(capacity=3)
async def test_callers_that_come_while_a_box_opens_wait_for_that_box(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    waiting = [asyncio.create_task(world.lend_once()) for _ in range(3)]
    await settle()
    world.opening.held_up.set()
    leases = await asyncio.gather(*waiting)
    assert world.opening.count == 1
    assert len({id(lease.pooled) for lease in leases}) == 1


@pooled(capacity=2)
async def test_more_callers_than_a_box_holds_get_more_boxes(world: World) -> None:
    inside: list[PooledBox] = []
    leave = asyncio.Event()

    async def stay() -> None:
        async with world.lend() as lease:
            inside.append(lease.pooled)
            assert lease.pooled.leases <= 2
            await leave.wait()

    callers = [asyncio.create_task(stay()) for _ in range(5)]
    for _ in range(10):
        await settle()
    assert len(inside) == 5
    assert len({id(warm) for warm in inside}) == 3
    leave.set()
    await asyncio.gather(*callers)


@pooled()
async def test_a_box_has_slots_for_running_calls_and_some_to_spare(world: World) -> None:
    async with world.lend(), world.lend(), world.lend():
        assert len(world.box().slots) == 3 + POLICY.reuse.ahead + 2
    async with world.lend():
        assert len(world.box().slots) == 3 + POLICY.reuse.ahead + 2


@pooled()
async def test_imports_of_tools_are_sent_to_a_box_once(world: World) -> None:
    async with world.lend(preload=("json",)) as lease:
        lease.pooled.preload(["json", "csv"])
        lease.pooled.preload(["csv"])
    await settle()
    assert world.box().preloaded == ("json", "csv")


@pooled()
async def test_a_repeated_tool_is_compiled_once_for_all_its_calls(world: World) -> None:
    long, other = "x = 1\n" * 200, "y = 1\n" * 200
    async with world.lend() as lease:
        for source in (long, other, long, long):
            lease.pooled.note_run(source, filename="tool.py", took_s=0.01)
    await settle()
    assert world.box().compiled == (("tool.py", long),)


@pooled()
async def test_a_slow_tool_is_compiled_by_its_calls(world: World) -> None:
    async with world.lend() as lease:
        for _ in range(3):
            lease.pooled.note_run("x = 1\n" * 200, filename="tool.py", took_s=2.0)
    await settle()
    assert world.box().compiled == ()


@pooled()
async def test_a_large_tool_does_not_block_the_runner_with_compiling(world: World) -> None:
    long, short = "x = 1\n" * 50_000, "x = 1\n"
    async with world.lend() as lease:
        for source in (long, short) * 3:
            lease.pooled.note_run(source, filename="tool.py", took_s=0.01)
    await settle()
    assert world.box().compiled == (("tool.py", short),)


@pooled()
async def test_tools_that_run_once_each_take_bounded_room(world: World) -> None:
    async with world.lend() as lease:
        for number in range(1000):
            lease.pooled.note_run(f"x = {number}\n" * 100, filename="tool.py", took_s=0.01)
        assert len(lease.pooled.sources) == 64
    await settle()
    assert world.box().compiled == ()


# Leaving the pool


@pooled()
async def test_a_retired_box_is_closed_after_its_last_call(world: World) -> None:
    async with world.lend() as first:
        async with world.lend():
            first.pooled.is_retired = True
        await settle()
        assert world.box().is_open
        async with world.lend() as other:
            assert other.pooled is not first.pooled
    await settle()
    assert [box.is_open for box in world.backend.boxes] == [False, True]


@pooled()
async def test_a_single_use_box_is_never_leased_again(world: World) -> None:
    async with world.lend(policy=SINGLE_USE) as first, world.lend(policy=SINGLE_USE) as second:
        assert first.pooled is not second.pooled
        assert (first.path, second.path) == ("cold", "cold")
    await settle()
    assert (len(world.pool.boxes), world.open_boxes) == (0, 0)


@pooled()
async def test_a_lost_box_leaves_at_once(world: World) -> None:
    async with world.lend() as lease:
        world.box().lose()
        await settle()
        assert lease.pooled.session.loss is not None
        assert world.pool.boxes == ()
    assert (await world.lend_once()).path == "cold"


@pooled()
async def test_a_box_lost_while_idle_is_not_leased(world: World) -> None:
    await world.lend_once()
    world.box().lose()
    await settle()
    assert (await world.lend_once()).path == "cold"
    assert len(world.backend.boxes) == 2


@pooled()
async def test_a_box_idle_for_too_long_is_closed(world: World) -> None:
    policy = policy_with(idle=5.0)
    await world.lend_once(policy=policy)
    await asyncio.sleep(4)
    assert (await world.lend_once(policy=policy)).path == "warm"
    await asyncio.sleep(4)
    assert world.open_boxes == 1
    await asyncio.sleep(3)
    assert world.open_boxes == 0
    assert (await world.lend_once(policy=policy)).path == "cold"


@pooled()
async def test_a_box_in_use_is_not_idle_for_a_call_of_any_length(world: World) -> None:
    async with world.lend(policy=policy_with(idle=1.0)):
        await asyncio.sleep(600)
        assert world.open_boxes == 1


@pooled(memory=250, box_memory=100)
async def test_the_longest_idle_boxes_go_when_too_much_memory_is_kept(world: World) -> None:
    for tenant in "abcd":
        await world.lend_once(tenant)
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    assert [box.is_open for box in world.backend.boxes] == [False, False, True, True]


@pooled(memory=0, box_memory=100)
async def test_a_box_in_use_stays_however_much_memory_is_kept(world: World) -> None:
    async with world.lend():
        await asyncio.sleep(5)
        assert world.open_boxes == 1
    await asyncio.sleep(2)
    assert world.open_boxes == 0


@pooled(answers={"tool": hangs()})
async def test_closing_takes_a_box_with_an_unsettled_call(world: World) -> None:
    for policy in (POLICY, SINGLE_USE):
        async with world.lend(policy=policy) as lease:
            lease.call = lease.pooled.session.start(REQUEST, limits={}, value_limit=1, take=lambda *_: 0)
        lease.pooled.is_retired = True
    await world.pool.close()
    assert world.open_boxes == 0


@pooled()
async def test_a_box_without_a_place_for_the_call_is_lost_not_an_error(world: World) -> None:
    def no_place(count: int) -> list[Any]:
        raise FileNotFoundError("its control group is gone")

    await world.lend_once()
    world.box().add_slots = no_place  # type: ignore[method-assign]
    async with world.lend() as lease:
        assert (await world.lend_once()).path == "cold"
        await asyncio.sleep(2)
        assert "no place for calls" in str(lease.pooled.session.loss)
    await asyncio.sleep(2)
    assert world.open_boxes == 1


# Opening


@pooled()
async def test_a_box_that_fails_to_open_fails_all_who_wait_but_not_the_next(world: World) -> None:
    world.opening.failures = [BackendUnavailable("no room")]
    world.opening.held_up = asyncio.Event()
    waiting = [asyncio.create_task(world.lend_once()) for _ in range(3)]
    await settle()
    world.opening.held_up.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(error) for error in found] == ["no room"] * 3
    assert world.opening.count == 1
    assert (await world.lend_once()).path == "cold"


@pooled()
async def test_a_caller_that_gives_up_leaves_the_box_to_the_others(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    gone, patient = (asyncio.create_task(world.lend_once()) for _ in range(2))
    await settle()
    gone.cancel()
    await settle()
    world.opening.held_up.set()
    assert (await patient).path == "cold"
    assert gone.cancelled()
    assert world.opening.count == 1


@pooled()
async def test_a_box_opened_for_a_caller_that_gave_up_is_warm_for_the_next(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    gone = asyncio.create_task(world.lend_once())
    await settle()
    gone.cancel()
    world.opening.held_up.set()
    await settle()
    assert (await world.lend_once()).path == "warm"


@pooled()
async def test_a_single_use_box_opened_for_a_caller_that_gave_up_is_closed(world: World) -> None:
    gone = asyncio.create_task(world.lend_once(policy=SINGLE_USE))
    await asyncio.sleep(0)
    gone.cancel()
    await settle()
    assert world.open_boxes == 0


@pooled()
async def test_closing_while_a_box_opens_fails_its_callers(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    waiting = asyncio.create_task(world.lend_once())
    await settle()
    await world.pool.close()
    with pytest.raises(EngineClosed):
        await waiting
    with pytest.raises(EngineClosed):
        await world.lend_once()


@pooled()
async def test_closing_while_a_box_says_hello_closes_it(world: World) -> None:
    waiting = asyncio.create_task(world.lend_once())
    await until(lambda: world.backend.boxes)
    await world.pool.close()
    assert world.open_boxes == 0
    with pytest.raises(EngineClosed):
        await waiting


@pooled()
async def test_closing_takes_boxes_in_use_too(world: World) -> None:
    async with world.lend():
        await world.pool.close()
        assert world.open_boxes == 0


@pooled()
async def test_a_box_that_never_says_hello_is_abandoned(world: World) -> None:
    class Silent(FakeBox):
        def say(self, data: bytes) -> None:
            return

    async def open_silent(plan: BoxPlan) -> FakeBox:
        world.backend.boxes.append(Silent(world.backend, plan))
        return world.backend.boxes[-1]

    world.backend.open = open_silent  # type: ignore[method-assign]
    with pytest.raises(BoxLost, match="did not open within 35 s"):
        await world.lend_once()
    assert world.open_boxes == 0


@pooled()
async def test_a_box_that_dies_after_its_hello_is_reported_not_retried_endlessly(world: World) -> None:
    class Dying(FakeBox):
        def say(self, data: bytes) -> None:
            super().say(data)
            self.lose()

    async def open_dying(plan: BoxPlan) -> FakeBox:
        world.backend.boxes.append(Dying(world.backend, plan))
        return world.backend.boxes[-1]

    world.backend.open = open_dying  # type: ignore[method-assign]
    with pytest.raises(BoxLost):
        await world.lend_once()
    await settle()
    assert len(world.backend.boxes) == 1
    assert world.pool.boxes == ()


# Preloading


@pooled(unfit="its packages leave threads")
async def test_a_box_that_cannot_preload_serves_calls_and_the_next_does_not_try(world: World) -> None:
    async with world.lend(preload=("json",)) as lease:
        lease.pooled.preload(["csv"])
        assert not lease.pooled.preloaded
    await settle()
    assert [box.is_open for box in world.backend.boxes] == [True]
    world.box(0).lose()
    await settle()
    await world.lend_once(preload=("json",))
    assert world.box(1).plan == replace(world.box(0).plan, preload=(), imports_ahead=False)


class _Fragile(FakeBox):
    """A box that dies of its preloads."""

    def say(self, data: bytes) -> None:
        if self.plan.preload:
            self.lose()
        else:
            super().say(data)


class _Absorbed(FakeBox):
    """A box that never finishes its preloads."""

    def say(self, data: bytes) -> None:
        if not self.plan.preload:
            super().say(data)


async def _preloads_of_boxes(world: World, kind: type[FakeBox]) -> list[tuple[str, ...]]:
    """Return the preloads of the boxes of two consecutive calls, when the boxes are of that kind."""

    async def open_such(plan: BoxPlan) -> FakeBox:
        world.backend.boxes.append(kind(world.backend, plan))
        return world.backend.boxes[-1]

    world.backend.open = open_such  # type: ignore[method-assign]
    leases = [await world.lend_once(preload=("deadly",)) for _ in range(2)]
    assert not leases[0].pooled.preloaded
    assert leases[0].pooled is leases[1].pooled
    assert world.open_boxes == 1
    return [box.plan.preload for box in world.backend.boxes]


@pooled()
async def test_a_runner_that_dies_while_preloading_is_replaced_without_preloads(world: World) -> None:
    assert await _preloads_of_boxes(world, _Fragile) == [("deadly",), ("deadly",), ()]


@pooled()
async def test_a_runner_that_never_ends_preloading_is_replaced_without_preloads(world: World) -> None:
    assert await _preloads_of_boxes(world, _Absorbed) == [("deadly",), ()]


@pooled()
async def test_a_single_death_while_preloading_does_not_disable_preloads(world: World) -> None:
    world.opening.failures = [CallNotStarted("killed")]
    async with world.lend(preload=("json",)) as lease:
        assert lease.pooled.preloaded


@pooled()
async def test_a_tool_that_leaves_threads_in_a_box_retires_it_and_its_preloads(
    world: World,
) -> None:
    async with world.lend(preload=("json",)) as lease:
        lease.pooled.session.received(pack_message({"type": "unfit", "reason": "its packages leave threads"}))
        assert not lease.pooled.has_room
        assert world.box().is_open
        await world.lend_once(preload=("json", "sad"))
    await settle()
    assert [(box.is_open, box.plan.preload) for box in world.backend.boxes] == [(False, ("json",)), (True, ())]


@pooled()
async def test_closing_while_a_box_is_replaced_leaves_none(world: World) -> None:
    async def open_fragile(plan: BoxPlan) -> FakeBox:
        world.backend.boxes.append(_Fragile(world.backend, plan))
        return world.backend.boxes[-1]

    world.backend.open = open_fragile  # type: ignore[method-assign]
    waiting = asyncio.create_task(world.lend_once(preload=("json",)))
    await until(lambda: world.backend.boxes and not world.box().is_open)
    await world.pool.close()
    with pytest.raises(EngineClosed):
        await waiting


# Isolation


@pooled(missing=("cgroup", "own_uid"))
async def test_a_box_without_a_required_outside_measurement_is_refused(world: World) -> None:
    assert (await world.lend_once()).path == "cold"
    required = (*POLICY.isolation.require, Layer.CGROUP)
    policy = POLICY.model_copy(update={"isolation": POLICY.isolation.model_copy(update={"require": required})})
    with pytest.raises(IsolationUnavailable) as refusal:
        await world.lend_once(policy=policy)
    assert refusal.value.missing == ("cgroup",)
    assert refusal.value.remedy
    assert world.open_boxes == 1
