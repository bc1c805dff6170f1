"""Single-use boxes that are ready ahead of their calls: quicker than opened ones, used once, and gone afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Final

import pytest

from sandbox import AsyncSandbox, Policy, Sandbox, Status
from sandbox.policy import ReuseMode, load
from tests.end_to_end.calls import TRIVIAL, groups_of, wait_until, zygotes
from tests.leaks import Traces, Watch, descriptors, mounts, processes, temporary_directories

pytestmark = pytest.mark.slow

ROUNDS: Final = 12
WHO: Final = """
import os
def tool() -> list[str]:
    left = os.listdir("/tmp")
    open("/tmp/mine", "w").close()
    return left
"""


def single_use(*, ahead: int, idle: float = 300.0) -> Policy:
    policy = load("default")
    reuse = policy.reuse.model_copy(update={"mode": ReuseMode.NEVER, "ahead": ahead, "idle": idle})
    return policy.model_copy(update={"reuse": reuse})


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """An engine whose boxes are for one call each, two of them ready ahead."""
    with Sandbox(policy=single_use(ahead=2)) as engine:
        yield engine


def are_ready(sandbox: Sandbox, count: int) -> bool:
    return wait_until(lambda: sandbox.statistics().ready == count and not sandbox.statistics().opening)


def own_groups() -> Traces:
    """The control groups of this process's engines."""
    return {group: group for group in groups_of(os.getpid())}


def _time(sandbox: Sandbox, policy: Policy, *, path: str) -> float:
    begun = perf_counter()
    outcome = sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=policy)
    assert (outcome.value, outcome.timing.path) == (3, path)
    return perf_counter() - begun


def test_a_call_in_a_ready_box_takes_less_than_half_of_a_cold_one(sandbox: Sandbox) -> None:
    ahead, cold = single_use(ahead=2), single_use(ahead=0)
    sandbox.prepare(TRIVIAL, policy=ahead)
    times: dict[str, list[float]] = {"pooled": [], "cold": []}
    for _ in range(ROUNDS):
        assert are_ready(sandbox, 2)
        times["pooled"].append(_time(sandbox, ahead, path="pooled"))
        assert are_ready(sandbox, 2)
        times["cold"].append(_time(sandbox, cold, path="cold"))
    assert median(times["pooled"]) < median(times["cold"]) / 2, times


def test_a_ready_box_is_used_once(sandbox: Sandbox) -> None:
    sandbox.prepare(WHO)
    for _ in range(4):
        _use_one_up(sandbox)


def _use_one_up(sandbox: Sandbox) -> None:
    assert are_ready(sandbox, 2)
    ready = {zygote.pid for zygote in zygotes()}
    outcome = sandbox.run(WHO)
    assert (outcome.value, outcome.timing.path) == ([], "pooled")
    assert wait_until(lambda: len(ready & {zygote.pid for zygote in zygotes()}) == 1)


def test_a_ready_box_has_imported_what_its_tool_imports(sandbox: Sandbox) -> None:
    source = "import decimal\ndef tool() -> str:\n    return str(decimal.Decimal(1) / 8)\n"
    sandbox.prepare(source, tenant="importer")
    outcome = sandbox.run(source, tenant="importer")
    assert (outcome.value, outcome.timing.path, outcome.timing.preloaded) == ("0.125", "pooled", True)


def test_ready_boxes_that_were_killed_are_replaced_for_the_next_calls() -> None:
    with Sandbox(policy=single_use(ahead=2)) as sandbox:
        sandbox.prepare(TRIVIAL)
        for zygote in zygotes():
            zygote.kill()
        assert are_ready(sandbox, 0)
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}).timing.path == "cold"
        assert are_ready(sandbox, 2)
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}).timing.path == "pooled"


def test_ready_boxes_without_callers_are_closed() -> None:
    with Sandbox(policy=single_use(ahead=2, idle=1.0)) as sandbox:
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}).status is Status.OK
        assert wait_until(lambda: sandbox.statistics().ready > 0)  # a box may close before the other has opened
        assert are_ready(sandbox, 0)
        assert wait_until(lambda: not zygotes())


def test_many_calls_in_boxes_of_their_own_all_succeed_and_leave_nothing() -> None:
    watch = Watch(processes, descriptors, mounts, temporary_directories, own_groups)

    async def work() -> None:
        async with AsyncSandbox(policy=single_use(ahead=4), concurrency=8) as engine:
            outcomes = await engine.map(TRIVIAL, [{"a": number, "b": 1} for number in range(40)])
            assert [outcome.value for outcome in outcomes] == list(range(1, 41))
            counted = await engine.statistics()
            assert (counted.calls, counted.warm_calls) == (40, 0)

    asyncio.run(work())
    assert watch.leftovers() == {}


def test_closing_at_any_moment_leaves_nothing() -> None:
    watch = Watch(processes, descriptors, mounts, temporary_directories, own_groups)

    async def work(delay: float) -> None:
        async with AsyncSandbox(policy=single_use(ahead=2)) as engine:
            outcome = await engine.run(TRIVIAL, {"a": 1, "b": 2})
            assert outcome.value == 3
            await asyncio.sleep(delay)

    for delay in (0.0, 0.02, 0.03, 0.05, 0.08, 0.12):
        asyncio.run(work(delay))
    assert watch.leftovers() == {}
