"""Boxes over several calls: kept warm, not shared, not used again after an unclean end, and replaced when lost."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from sandbox.client.stream import Event, Finished
from sandbox.outcome import Status
from sandbox.policy import ReuseMode
from sandbox.testing.contract import expect
from sandbox.testing.contract.endings import SIGNAL
from sandbox.testing.contract.output import HANG
from sandbox.testing.contract.subject import Subject, until_printed

ECHO: Final = "def echo(value):\n    return value\n"


async def check_a_second_call_finds_the_box_warm(subject: Subject) -> None:
    async with subject.engine() as engine:
        paths = [expect.ok(await engine.sandbox.run(ECHO, {"value": n})).timing.path for n in range(3)]
        expect.same(paths, ["cold", "warm", "warm"])
        expect.same(len(engine.boxes), 1, what="the number of boxes")


async def check_a_prepared_box_is_warm_for_the_first_call(subject: Subject) -> None:
    async with subject.engine() as engine:
        await engine.sandbox.prepare(ECHO)
        expect.same(expect.ok(await engine.sandbox.run(ECHO, {"value": 1})).timing.path, "warm")


async def check_tenants_do_not_share_a_box(subject: Subject) -> None:
    async with subject.engine() as engine:
        for tenant in ("a", "b", "a"):
            expect.ok(await engine.sandbox.run(ECHO, {"value": 1}, tenant=tenant))
        expect.same(len(engine.boxes), 2, what="the number of boxes")


async def check_a_box_is_not_used_again_after_an_unclean_end(subject: Subject) -> None:
    async with subject.engine() as engine:
        expect.ended(await engine.sandbox.run(SIGNAL, {"number": 9}), Status.CRASHED)
        expect.same(expect.ok(await engine.sandbox.run(ECHO, {"value": 1})).timing.path, "cold")


async def check_a_box_of_a_single_use_policy_serves_one_call(subject: Subject) -> None:
    policy = subject.policy_with("reuse", mode=ReuseMode.NEVER, ahead=0)
    async with subject.engine(policy=policy) as engine:
        for number in range(2):
            expect.same(expect.ok(await engine.sandbox.run(ECHO, {"value": number})).timing.path, "cold")
        expect.same(len(engine.boxes), 2, what="the number of boxes")


async def check_single_use_boxes_are_ready_ahead_of_their_calls(subject: Subject) -> None:
    policy = subject.policy_with("reuse", mode=ReuseMode.NEVER, ahead=2)
    async with subject.engine(policy=policy) as engine:
        await engine.sandbox.prepare(ECHO)
        found = await asyncio.gather(*(engine.sandbox.run(ECHO, {"value": n}) for n in range(2)))
        expect.same([expect.ok(outcome).value for outcome in found], [0, 1])
        expect.same([outcome.timing.path for outcome in found], ["pooled", "pooled"])


async def check_a_single_use_box_lost_while_ready_costs_no_call(subject: Subject) -> None:
    policy = subject.policy_with("reuse", mode=ReuseMode.NEVER, ahead=1)
    for lose in subject.losses:
        async with subject.engine(policy=policy) as engine:
            await engine.sandbox.prepare(ECHO)
            lose(engine.boxes[0])
            expect.same(expect.ok(await engine.sandbox.run(ECHO, {"value": 1})).value, 1)


async def check_many_calls_at_once_all_end_well(subject: Subject) -> None:
    async with subject.engine(concurrency=16) as engine:
        outcomes = await engine.sandbox.map(ECHO, [{"value": n} for n in range(subject.many)])
    expect.same([expect.ok(outcome).value for outcome in outcomes], list(range(subject.many)))


async def check_map_keeps_the_order_of_its_arguments(subject: Subject) -> None:
    source = "import time\n\ndef wait(s: float) -> float:\n    time.sleep(s)\n    return s\n"
    times = [0.3, 0.0, 0.2, 0.1]
    outcomes = await subject.sandbox.map(source, [{"s": each} for each in times])
    expect.same([outcome.value for outcome in outcomes], times)


async def check_a_lost_box_is_reported_and_the_next_call_works(subject: Subject) -> None:
    for lose in subject.losses:
        async with subject.engine() as engine:
            async with aclosing(engine.sandbox.stream(HANG, {"text": "running"})) as events:
                await until_printed(events, "running\n")
                lose(engine.boxes[0])
                outcome = [event async for event in events][-1]
            _report_loss(outcome)
            expect.ok(await engine.sandbox.run(ECHO, {"value": 1}))


def _report_loss(event: Event) -> None:
    if not isinstance(event, Finished):
        raise AssertionError(f"the last event is {event!r:.2000}")
    outcome = expect.ended(event.outcome, Status.CRASHED)
    expect.same(outcome.evidence.get("box"), "lost")
    expect.same(outcome.stdout.text, "running\n")


async def check_a_box_lost_while_idle_costs_no_call(subject: Subject) -> None:
    for lose in subject.losses:
        async with subject.engine() as engine:
            expect.ok(await engine.sandbox.run(ECHO, {"value": 1}))
            lose(engine.boxes[0])
            found = await asyncio.gather(*(engine.sandbox.run(ECHO, {"value": n}) for n in range(4)))
            expect.same([expect.ok(outcome).value for outcome in found], list(range(4)))
