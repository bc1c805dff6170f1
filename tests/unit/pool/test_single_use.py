"""Single-use boxes open ahead of their calls, one for each, and no more than calls take. In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.backends.base import BoxPlan, ImageGone
from sandbox.errors import BackendUnavailable, EngineClosed
from sandbox.policy import ReuseMode
from sandbox.protocols import BoxImage
from sandbox.testing import FakeBox
from tests.unit.pool.worlds import SINGLE_USE, Caller, World, policy_with, pooled, settle, until

COLD_ONLY = policy_with(mode=ReuseMode.NEVER, ahead=0)
MANY_AHEAD = policy_with(mode=ReuseMode.NEVER, ahead=8)
OLD, NEW = BoxImage("sha256:old", b""), BoxImage("sha256:new", b"")


async def refilled() -> None:
    """Wait long enough for boxes to open ahead, and not long enough for any to become idle."""
    await asyncio.sleep(0.5)


def ready(world: World) -> int:
    return world.pool.statistics.ready


@pooled()
async def test_after_the_first_call_of_a_key_boxes_are_ready(world: World) -> None:
    assert (await world.lend_once(policy=SINGLE_USE)).path == "cold"
    await refilled()
    assert ready(world) == SINGLE_USE.reuse.ahead == 2
    assert (await world.lend_once(policy=SINGLE_USE)).path == "pooled"
    assert (await world.lend_once("another", policy=SINGLE_USE)).path == "cold"


@pooled()
async def test_nothing_opens_ahead_while_the_first_call_runs(world: World) -> None:
    async with world.lend(policy=SINGLE_USE):
        await refilled()
        assert world.open_boxes == 1


@pooled()
async def test_a_ready_box_runs_one_call_and_is_closed(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    leases = []
    for _ in range(6):
        async with world.lend(policy=SINGLE_USE) as lease:
            leases.append(lease)
        await refilled()
        assert lease.pooled.is_closing
    assert [lease.path for lease in leases] == ["pooled"] * 6
    assert len({id(lease.pooled) for lease in leases}) == 6
    assert world.open_boxes == ready(world) == 2


@pooled()
async def test_a_taken_box_is_replaced_while_its_call_runs(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    async with world.lend(policy=SINGLE_USE), world.lend(policy=SINGLE_USE):
        assert ready(world) == 0
        await refilled()
        assert ready(world) == 2


@pooled()
async def test_without_a_ready_box_a_call_gets_a_cold_one(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    callers = [world.hold(policy=SINGLE_USE) for _ in range(4)]
    await settle()
    assert [caller.path for caller in callers] == ["pooled", "pooled", "cold", "cold"]
    for caller in callers:
        await caller.leave()


@pooled()
async def test_without_a_ready_box_a_call_takes_one_that_is_opening(world: World) -> None:
    await world.lend_once(policy=SINGLE_USE)
    world.opening.held_up = asyncio.Event()
    await refilled()
    assert (world.pool.statistics.opening, world.opening.count) == (2, 3)
    caller = world.hold(policy=SINGLE_USE)
    await settle()
    assert world.opening.count == 3
    world.opening.held_up.set()
    await settle()
    assert caller.path == "cold"
    await caller.leave()


@pooled()
async def test_a_policy_without_boxes_ahead_gets_none(world: World) -> None:
    await world.prepare(policy=COLD_ONLY)
    for _ in range(2):
        assert (await world.lend_once(policy=COLD_ONLY)).path == "cold"
    await refilled()
    assert world.open_boxes == 0


@pooled()
async def test_preparing_opens_as_many_boxes_as_the_policy_keeps(world: World) -> None:
    await world.prepare(policy=MANY_AHEAD)
    assert ready(world) == 8
    assert world.pool.statistics.calls == 0


@pooled()
async def test_preparing_reports_why_no_box_opens(world: World) -> None:
    world.opening.failures = [BackendUnavailable("no daemon")] * 2
    with pytest.raises(BackendUnavailable, match="no daemon"):
        await world.prepare(policy=SINGLE_USE)
    await refilled()
    assert world.open_boxes == 0


@pooled()
async def test_more_boxes_are_kept_ready_after_calls_that_found_none(world: World) -> None:
    await world.lend_once(policy=MANY_AHEAD)
    await refilled()
    assert ready(world) == 2
    for expected in (4, 8, 8):
        callers = [world.hold(policy=MANY_AHEAD) for _ in range(ready(world) + 1)]
        await settle()
        for caller in callers:
            await caller.leave()
        await refilled()
        assert ready(world) == expected


@pooled()
async def test_an_unused_box_is_closed_and_not_replaced(world: World) -> None:
    policy = policy_with(mode=ReuseMode.NEVER, idle=10.0)
    await world.prepare(policy=policy)
    for _ in range(5):
        await asyncio.sleep(4)
        assert (await world.lend_once(policy=policy)).path == "pooled"
    await refilled()
    assert ready(world) == 1
    await asyncio.sleep(30)
    assert (world.open_boxes, world.pool.boxes) == (0, ())
    assert (await world.lend_once(policy=policy)).path == "cold"
    await refilled()
    assert ready(world) == 2


@pooled()
async def test_a_box_that_dies_while_waiting_is_never_leased(world: World) -> None:
    await world.prepare(policy=SINGLE_USE)
    for box in world.backend.open_boxes:
        box.lose()
    await settle()
    assert (ready(world), world.open_boxes) == (0, 0)
    async with world.lend(policy=SINGLE_USE) as lease:
        assert (lease.path, lease.pooled.session.loss) == ("cold", None)


@pooled()
async def test_boxes_that_die_when_ready_are_not_reopened_endlessly(world: World) -> None:
    class Dying(FakeBox):
        def add_slots(self, count: int):  # type: ignore[no-untyped-def]
            self.lose()
            return super().add_slots(count)

    async def open_dying(plan: BoxPlan) -> FakeBox:
        world.backend.boxes.append(Dying(world.backend, plan))
        return world.backend.boxes[-1]

    await world.lend_once(policy=SINGLE_USE)
    world.backend.open = open_dying  # type: ignore[method-assign]
    await asyncio.sleep(60)
    assert len(world.backend.boxes) == 3


@pooled()
async def test_calls_get_boxes_when_opening_ahead_fails(world: World) -> None:
    await world.lend_once(policy=SINGLE_USE)
    world.opening.failures = [BackendUnavailable("busy")]
    await asyncio.sleep(60)
    assert (world.opening.count, ready(world)) == (2, 0)
    assert (await world.lend_once(policy=SINGLE_USE)).path == "cold"
    await refilled()
    assert ready(world) == 2


@pooled()
async def test_boxes_open_ahead_from_the_image_of_the_latest_call(world: World) -> None:
    await world.lend_once(policy=SINGLE_USE, image=OLD, preload=("json",))
    await refilled()
    await world.lend_once(policy=SINGLE_USE, image=NEW)
    await refilled()
    *_, last = world.backend.boxes
    assert (last.plan.interpreter.image, last.plan.preload) == (NEW, ("json",))


@pooled()
async def test_a_missing_image_refuses_no_call_that_has_a_newer_one(world: World) -> None:
    world.opening.gone = OLD
    callers = [world.hold(policy=SINGLE_USE, image=image) for image in (OLD, OLD, NEW)]
    await settle()
    assert [caller.path for caller in callers] == ["cold"] * 3
    for caller in callers:
        await caller.leave()


@pooled()
async def test_a_call_learns_that_its_image_is_missing(world: World) -> None:
    world.opening.gone = OLD
    with pytest.raises(ImageGone):
        await world.lend_once(policy=SINGLE_USE, image=OLD)
    assert (await world.lend_once(policy=SINGLE_USE, image=NEW)).path == "cold"


@pooled(memory=250, box_memory=100)
async def test_ready_boxes_stay_within_the_memory_limit(world: World) -> None:
    await world.prepare(policy=MANY_AHEAD)
    await asyncio.sleep(2)
    assert ready(world) == 2
    for _ in range(3):
        assert (await world.lend_once(policy=MANY_AHEAD)).path == "pooled"
        await refilled()
        assert ready(world) == 2


@pooled(memory=250, box_memory=100)
async def test_unused_boxes_make_room_for_those_of_a_busier_tenant(world: World) -> None:
    await world.prepare("quiet", policy=SINGLE_USE)
    await asyncio.sleep(2)
    for _ in range(2):
        await world.lend_once("busy", policy=SINGLE_USE)
        await asyncio.sleep(2)
    assert world.open_boxes == 2
    assert (await world.lend_once("busy", policy=SINGLE_USE)).path == "pooled"


@pooled()
async def test_a_call_longer_than_boxes_may_be_idle_still_counts_as_the_first(world: World) -> None:
    policy = policy_with(mode=ReuseMode.NEVER, idle=10.0)
    async with world.lend(policy=policy):
        await asyncio.sleep(60)
    await refilled()
    assert ready(world) == 2
    await asyncio.sleep(30)
    assert world.open_boxes == 0


@pooled()
async def test_a_ready_box_has_its_preloads_and_has_run_nothing(world: World) -> None:
    await world.prepare(policy=SINGLE_USE, preload=("json",))
    async with world.lend(policy=SINGLE_USE, preload=("csv",)) as lease:
        await settle()
        assert isinstance(lease.pooled.box, FakeBox)
        assert lease.pooled.box.preloaded[0] == "json"
    await refilled()
    assert [sorted(box.preloaded) for box in world.backend.open_boxes] == [["csv", "json"]] * 2
    assert world.backend.calls == []


@pooled(unfit="its packages leave threads")
async def test_preloads_that_fail_are_tried_once(world: World) -> None:
    await world.lend_once(policy=SINGLE_USE, preload=("json",))
    await refilled()
    assert [box.preloaded for box in world.backend.boxes] == [("json",), (), ()]


@pooled()
async def test_a_box_handed_to_a_caller_that_gives_up_stays_ready(world: World) -> None:
    gone = await just_handed(world)
    gone.task.cancel()
    await settle()
    assert (gone.task.cancelled(), gone.lease) == (True, None)
    assert ready(world) == world.open_boxes == 2
    assert (await world.lend_once(policy=SINGLE_USE)).path == "pooled"


@pooled()
async def test_a_box_that_dies_in_that_moment_is_not_kept(world: World) -> None:
    gone = await just_handed(world)
    gone.task.cancel()
    world.backend.open_boxes[0]._receiver.closed()  # type: ignore[union-attr]
    await settle()
    assert ready(world) == world.open_boxes == 1


@pooled(at_once=1)
async def test_a_box_handed_to_a_caller_that_gives_up_may_go_to_the_next(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    gone, patient = world.hold(policy=COLD_ONLY), world.hold(policy=COLD_ONLY)
    await settle()
    world.opening.held_up.set()
    await until(lambda: len(world.pool._queues[world.key(policy=COLD_ONLY)].line) == 1)
    gone.task.cancel()
    await settle()
    assert patient.lease is not None
    assert patient.lease.pooled.box is world.box(0)
    await patient.leave()


async def just_handed(world: World) -> Caller:
    """Return a caller that waited for a box opening ahead, has just got it, and has not run since."""
    await world.lend_once(policy=SINGLE_USE)
    world.opening.held_up = asyncio.Event()
    await refilled()
    caller = world.hold(policy=SINGLE_USE)
    await settle()
    world.opening.held_up.set()
    await until(lambda: not world.pool._queues[world.key(policy=SINGLE_USE)].line)
    assert caller.lease is None
    return caller


@pooled()
async def test_closing_while_boxes_open_ahead_leaves_none(world: World) -> None:
    await world.lend_once(policy=SINGLE_USE)
    world.opening.held_up = asyncio.Event()
    await refilled()
    assert world.pool.statistics.opening == 2
    await world.pool.close()
    assert world.pool.statistics.opening == 0


@pooled()
async def test_closing_while_boxes_are_prepared_fails_the_waiting_callers(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    preparing = asyncio.create_task(world.prepare(policy=SINGLE_USE))
    await settle()
    await world.pool.close()
    with pytest.raises(EngineClosed):
        await preparing


@pooled()
async def test_a_caller_that_gives_up_preparing_leaves_the_boxes_to_calls(world: World) -> None:
    world.opening.held_up = asyncio.Event()
    preparing = asyncio.create_task(world.prepare(policy=SINGLE_USE))
    await settle()
    preparing.cancel()
    world.opening.held_up.set()
    await settle()
    assert preparing.cancelled()
    assert (await world.lend_once(policy=SINGLE_USE)).path == "pooled"


@pooled()
async def test_unused_keys_are_forgotten(world: World) -> None:
    for number in range(20):
        await world.lend_once(f"tenant-{number}", policy=SINGLE_USE)
    assert len(world.pool._queues) == 20
    await asyncio.sleep(3 * SINGLE_USE.reuse.idle)
    assert (len(world.pool._queues), world.open_boxes) == (0, 0)
