"""The limiter never admits more than its limit, takes tenants in turn, and loses no turn when a caller gives up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.pool.limiter import FairLimiter, KeyedLocks
from tests import virtual_time


class Caller:
    """A caller that enters, and stays until released."""

    def __init__(self, gate: FairLimiter, tenant: str, *, arrivals: list[Caller]) -> None:
        self.tenant = tenant
        self.is_in = False
        self._may_go = asyncio.Event()
        self._arrivals = arrivals
        self.task = asyncio.create_task(self._stay(gate))

    async def _stay(self, gate: FairLimiter) -> None:
        async with gate.turn(self.tenant):
            self.is_in = True
            self._arrivals.append(self)
            try:
                await self._may_go.wait()
            finally:
                self.is_in = False

    async def leave(self) -> None:
        self._may_go.set()
        await self.task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def order_of(tenants: Sequence[str], *, limit: int) -> list[str]:
    """Return the order in which callers of these tenants enter when all wait and leave in turn."""
    gate = FairLimiter(limit)
    arrivals: list[Caller] = []
    callers = [Caller(gate, tenant, arrivals=arrivals) for tenant in tenants]
    await settle()
    for number in range(len(callers)):
        await arrivals[number].leave()
        await settle()
    return [caller.tenant for caller in arrivals]


def test_callers_up_to_the_limit_enter_at_once() -> None:
    async def come() -> tuple[int, int]:
        gate = FairLimiter(3)
        arrivals: list[Caller] = []
        callers = [Caller(gate, "", arrivals=arrivals) for _ in range(5)]
        await settle()
        found = len(arrivals), gate.waiting
        for caller in callers:
            caller.task.cancel()
        await asyncio.gather(*(caller.task for caller in callers), return_exceptions=True)
        return found

    assert virtual_time.run(come()) == (3, 2)


def test_many_calls_of_a_tenant_delay_another_tenant_by_one() -> None:
    order = virtual_time.run(order_of("a" * 20 + "b", limit=1))
    assert "".join(order)[:4] == "aaba"


def test_tenants_take_turns_however_many_calls_each_has() -> None:
    order = virtual_time.run(order_of("aaaaabbbcc", limit=1))
    assert "".join(order) == "aabcabcaba"


def test_calls_of_one_tenant_keep_their_order() -> None:
    async def come() -> list[int]:
        gate = FairLimiter(1)
        arrivals: list[Caller] = []
        callers = [Caller(gate, "", arrivals=arrivals) for _ in range(6)]
        for caller in callers:
            await settle()
            await caller.leave()
        return [callers.index(caller) for caller in arrivals]

    assert virtual_time.run(come()) == list(range(6))


def test_a_caller_that_gives_up_leaves_the_line() -> None:
    async def come() -> tuple[int, list[str]]:
        gate = FairLimiter(1)
        arrivals: list[Caller] = []
        first, second, third = (Caller(gate, tenant, arrivals=arrivals) for tenant in "abc")
        await settle()
        second.task.cancel()
        await settle()
        waiting = gate.waiting
        await first.leave()
        await third.leave()
        return waiting, [caller.tenant for caller in arrivals]

    assert virtual_time.run(come()) == (1, ["a", "c"])


def test_a_turn_granted_to_a_caller_that_gives_up_goes_to_the_next() -> None:
    async def come() -> list[str]:
        gate = FairLimiter(1)
        arrivals: list[Caller] = []
        first, second, third = (Caller(gate, tenant, arrivals=arrivals) for tenant in "abc")
        await settle()
        first._may_go.set()
        await asyncio.sleep(0)
        # granted, and the caller has not run since
        assert (first.is_in, second.is_in, gate.waiting) == (False, False, 1)
        second.task.cancel()
        await settle()
        assert second.task.cancelled()
        assert third.is_in
        await third.leave()
        async with asyncio.timeout(1), gate.turn("d"):
            return [caller.tenant for caller in arrivals]

    assert virtual_time.run(come()) == ["a", "c"]


steps = st.lists(
    st.tuples(st.sampled_from(["come", "leave", "give up", "leave and give up", "wait"]), st.integers(0, 7)),
    max_size=60,
)


@pytest.mark.slow
@given(st.integers(1, 4), steps)
def test_any_sequence_of_callers_keeps_the_limit_and_every_turn(limit: int, schedule: list[tuple[str, int]]) -> None:
    async def live() -> None:
        gate = FairLimiter(limit)
        arrivals: list[Caller] = []
        callers: list[Caller] = []
        for action, number in schedule:
            inside = [caller for caller in callers if caller.is_in]
            waiting = [caller for caller in callers if not caller.is_in and not caller.task.done()]
            if action == "come":
                callers.append(Caller(gate, "abc"[number % 3], arrivals=arrivals))
            if "leave" in action and inside:
                inside[number % len(inside)]._may_go.set()
                await asyncio.sleep(0)
            if "give up" in action and waiting:
                waiting[number % len(waiting)].task.cancel()
            if action == "wait":
                await settle()
            assert sum(caller.is_in for caller in callers) <= limit
        await settle()
        alive = [caller for caller in callers if not caller.task.done()]
        inside = [caller for caller in alive if caller.is_in]
        assert len(inside) == min(limit, len(alive))
        assert gate.waiting == len(alive) - len(inside)
        for caller in alive:
            caller._may_go.set()
        await asyncio.gather(*(caller.task for caller in callers), return_exceptions=True)
        assert gate.waiting == 0
        last = [Caller(gate, "", arrivals=arrivals) for _ in range(limit)]
        await settle()
        assert all(caller.is_in for caller in last)
        for caller in last:
            await caller.leave()

    virtual_time.run(live())


def test_keyed_locks_serialise_callers_and_unused_locks_are_forgotten() -> None:
    async def live() -> tuple[list[str], int]:
        files = KeyedLocks()
        told: list[str] = []

        async def pass_through(key: str, name: str) -> None:
            async with files.turn(key):
                told.append(f"{name} in")
                await settle()
                told.append(f"{name} out")

        first, second, third = (asyncio.create_task(pass_through("a", name)) for name in "123")
        other = asyncio.create_task(pass_through("b", "other"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, third, other, return_exceptions=True)
        del first, second, third, other
        await settle()
        gc.collect()  # the caller that gave up has left a traceback
        return told, len(files)

    told, left = virtual_time.run(live())
    assert [each for each in told if "other" not in each] == ["1 in", "1 out", "3 in", "3 out"]
    assert told.index("other in") < told.index("1 out")
    assert left == 0
