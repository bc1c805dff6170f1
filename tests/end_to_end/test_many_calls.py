"""Many calls at once: none fails, none gets another's answer, and afterwards everything is as it was."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import pytest

from sandbox import AsyncSandbox, Outcome, Sandbox, Status
from sandbox.policy import Limits, load
from tests.end_to_end.calls import groups_of, is_at_rest, wait_until
from tests.leaks import Traces, Watch, descriptors, mounts, processes, temporary_directories

pytestmark = pytest.mark.slow

MANY: Final = 1000
AT_ONCE: Final = 200
ECHO: Final = """
import os, sys
def tool(i: int) -> int:
    print("out", i)
    print("err", i, file=sys.stderr)
    return i
"""


def own_groups() -> Traces:
    """The control groups of this process's engines."""
    return {group: group for group in groups_of(os.getpid())}


def has_both_children_ahead() -> bool:
    """Whether the engine has heard of both, and has opened what counts them; where nothing does, rest is enough."""
    ours = f"/sandbox-{os.getpid()}-"
    counted = {Path(name.rpartition(" ")[2]).parent.name for name in descriptors().values() if ours in name}
    return is_at_rest() and (len(counted) == 2 or not own_groups())


def _is_answer(outcome: Outcome, i: int) -> bool:
    return (outcome.status, outcome.value, outcome.stdout.text, outcome.stderr.text) == (
        Status.OK,
        i,
        f"out {i}\n",
        f"err {i}\n",
    )


def test_a_thousand_calls_in_flight_all_succeed_and_leave_nothing() -> None:
    watch = Watch(processes, descriptors, mounts, temporary_directories, own_groups)

    async def work() -> None:
        async with AsyncSandbox() as engine:
            outcomes = await asyncio.gather(*(engine.run(ECHO, {"i": i}) for i in range(MANY)))
            wrong = [outcome for i, outcome in enumerate(outcomes) if not _is_answer(outcome, i)]
            assert wrong == []
            assert wait_until(is_at_rest)

    asyncio.run(work())
    assert watch.leftovers() == {}


def test_hundreds_of_calls_running_at_once_all_succeed_and_leave_nothing() -> None:
    watch = Watch(processes, descriptors, mounts, temporary_directories, own_groups)
    patient = load("default").model_copy(update={"limits": Limits(wall=100)})
    lasting = f"import time\n{ECHO}".replace("    return", "    time.sleep(1)\n    return")

    async def work() -> None:
        async with AsyncSandbox(concurrency=AT_ONCE, policy=patient) as engine:
            outcomes = await asyncio.gather(*(engine.run(lasting, {"i": i}) for i in range(AT_ONCE)))
            wrong = [outcome for i, outcome in enumerate(outcomes) if not _is_answer(outcome, i)]
            assert wrong == []

    asyncio.run(work())
    assert watch.leftovers() == {}


def test_one_box_serves_hundreds_of_calls_without_growing() -> None:
    """Half as many at once as a box has room for: calls that are just ending take room, too, and while a box is full of
    both, another may be opened for who waits."""
    with Sandbox(concurrency=16) as sandbox:
        sandbox.map(ECHO, [{"i": i} for i in range(100)])
        assert wait_until(has_both_children_ahead)
        watch = Watch(processes, descriptors, own_groups)
        sandbox.map(ECHO, [{"i": i} for i in range(200)])
        assert wait_until(is_at_rest)
        assert watch.leftovers() == {}


def test_tenants_never_share_a_box() -> None:
    with (
        Sandbox() as sandbox
    ):  # a separate engine: other tests count the resources of theirs, and boxes at rest still change them
        paths = [sandbox.run(ECHO, {"i": i}, tenant=f"tenant-{i}").timing.path for i in range(4)]
        assert paths == ["cold"] * 4
        assert sandbox.run(ECHO, {"i": 0}, tenant="tenant-0").timing.path == "warm"
