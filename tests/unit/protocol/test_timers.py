"""Timers of the calls of a box run at their times: no sooner, no later, and only once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.protocol.timers import _MIN_SIZE, TimerQueue
from tests import virtual_time


def _noting(done: list[tuple[str, float]], name: str) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    return lambda: done.append((name, round(loop.time(), 6)))


def _fail() -> None:
    raise ValueError


def test_timers_run_at_their_times_in_any_order_of_creation() -> None:
    async def keep() -> list[tuple[str, float]]:
        agenda, done = TimerQueue(), list[tuple[str, float]]()
        for name, seconds in [("late", 30.0), ("first", 0.004), ("same", 0.004), ("middle", 2.5), ("now", 0.0)]:
            agenda.after(seconds, _noting(done, name))
        await asyncio.sleep(60)
        return done

    expected = [("now", 0.0), ("first", 0.004), ("same", 0.004), ("middle", 2.5), ("late", 30.0)]
    assert virtual_time.run(keep()) == expected


def test_a_cancelled_timer_does_not_run_and_late_cancelling_is_harmless() -> None:
    async def keep() -> tuple[list[tuple[str, float]], list[bool]]:
        agenda, done = TimerQueue(), list[tuple[str, float]]()
        kept, dropped = agenda.after(1, _noting(done, "kept")), agenda.after(0.5, _noting(done, "dropped"))
        dropped.cancel()
        stood = [kept.is_pending, dropped.is_pending]
        await asyncio.sleep(2)
        kept.cancel()
        return done, [*stood, kept.is_pending]

    assert virtual_time.run(keep()) == ([("kept", 1.0)], [True, False, False])


def test_a_timer_may_cancel_another_that_is_due_and_create_new_ones() -> None:
    async def keep() -> list[tuple[str, float]]:
        agenda, done = TimerQueue(), list[tuple[str, float]]()

        def first() -> None:
            other.cancel()
            agenda.after(1, _noting(done, "new"))

        agenda.after(1, first)
        other = agenda.after(1, _noting(done, "other"))
        await asyncio.sleep(5)
        return done

    assert virtual_time.run(keep()) == [("new", 2.0)]


def test_a_failing_timer_does_not_stop_the_others() -> None:
    async def keep() -> tuple[list[tuple[str, float]], list[Any]]:
        agenda, done, told = TimerQueue(), list[tuple[str, float]](), list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context.get("exception")))
        agenda.after(1, _fail)
        agenda.after(1, _noting(done, "with it"))
        agenda.after(2, _noting(done, "after it"))
        await asyncio.sleep(5)
        return done, told

    done, told = virtual_time.run(keep())
    assert done == [("with it", 1.0), ("after it", 2.0)]
    assert [type(each) for each in told] == [ValueError]


def test_a_loop_whose_clock_is_a_little_behind_is_not_kept_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep() -> int:
        loop, turns = asyncio.get_running_loop(), 0
        agenda, done = TimerQueue(), asyncio.Event()
        agenda.after(1, done.set)
        call_at = loop.call_at

        def a_little_early(when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
            nonlocal turns
            turns += 1
            assert turns < 10
            return call_at(when - 1e-9, *rest, **more)

        monkeypatch.setattr(loop, "call_at", a_little_early)
        agenda.after(0.5, lambda: None)
        await done.wait()
        return turns

    assert virtual_time.run(keep()) <= 3


def test_many_cancelled_timers_leave_little_and_wake_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def keep() -> tuple[int, int]:
        loop, timers = asyncio.get_running_loop(), 0
        agenda, most = TimerQueue(), 0
        call_at = loop.call_at

        def counted(*arguments: Any, **more: Any) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return call_at(*arguments, **more)

        monkeypatch.setattr(loop, "call_at", counted)
        for _ in range(10_000):
            agenda.after(30, lambda: None).cancel()
            most = max(most, len(agenda._heap))
        return most, timers

    most, timers = virtual_time.run(keep())
    assert most <= _MIN_SIZE + 1
    assert timers == 1


def test_any_number_of_timers_runs_in_order_after_any_cancelling() -> None:
    async def keep(seed: int) -> None:
        chance, agenda, done = random.Random(seed), TimerQueue(), list[tuple[str, float]]()
        expected = []
        for number in range(500):
            seconds = chance.randrange(1, 100) / 10
            appointment = agenda.after(seconds, _noting(done, str(number)))
            if chance.random() < 0.4:
                appointment.cancel()
            else:
                expected.append((seconds, number))
        await asyncio.sleep(20)
        assert done == [(str(number), seconds) for seconds, number in sorted(expected)]

    for seed in range(20):
        virtual_time.run(keep(seed))
