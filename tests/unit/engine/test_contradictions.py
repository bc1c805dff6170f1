"""A contradictory box is not believed: its call has crashed, and its caller gets no error of the engine."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from typing import Any

import pytest

from sandbox import AsyncSandbox, Outcome, Status
from sandbox.engine.result import CallEnd
from sandbox.engine.verdict import judge
from sandbox.outcome import Isolation
from sandbox.protocol.frames import Chunk, Stream, pack_chunk, pack_message
from sandbox.protocols import Reading
from sandbox.testing import FakeBackend, hangs, script
from tests import virtual_time
from tests.unit.engine.test_verdict import LIMITS, METERED, VALUE, died, end, judged, packed

FAULT = {"layer": "seccomp", "reason": "haha"}
FORGED_WALLS = {"junk": b"junk", "a wall that failed": json.dumps({"fault": FAULT}).encode()}


@pytest.mark.parametrize(
    ("killed_by", "reading"),
    [
        ("memory", Reading(cpu_s=0.1, memory_peak_bytes=LIMITS.memory // 10)),
        ("cpu", Reading(cpu_s=0.07)),
        ("processes", Reading(cpu_s=0.1, processes_peak=1)),
    ],
)
def test_a_limit_that_was_far_away_ended_no_call(killed_by: str, reading: Reading) -> None:
    for ended in (died(killed_by=killed_by), end(killed_by=killed_by)):
        verdict = judged(ended, VALUE, reading=reading)
        assert (verdict.status, verdict.value, verdict.limit_name) == (Status.CRASHED, None, None)
        assert {"limit", "measured"} <= verdict.evidence.keys()


@pytest.mark.parametrize(
    ("killed_by", "reading"),
    [
        ("memory", Reading(cpu_s=0.1, memory_peak_bytes=LIMITS.memory - (1 << 20))),
        ("memory", Reading(cpu_s=0.1, memory_peak_bytes=1, out_of_memory_kills=1)),
        ("memory", Reading(cpu_s=0.1)),
        ("cpu", Reading(cpu_s=LIMITS.cpu - 1)),
        ("cpu", Reading(memory_peak_bytes=1)),
        ("processes", Reading(processes_peak=1, refused_forks=1)),
    ],
)
def test_a_limit_that_may_have_been_reached_is_believed(killed_by: str, reading: Reading) -> None:
    verdict = judge(CallEnd(died(killed_by=killed_by), packed(VALUE), LIMITS, reading, 1.5))
    assert verdict.limit_name == killed_by


def test_a_box_cannot_report_what_only_the_engine_does() -> None:
    assert judged(died(signal.SIGKILL, killed_by="engine"), VALUE, reading=METERED).error is not None


def outcomes_after_message(*said: bytes) -> tuple[Outcome, Outcome]:
    """Return the outcomes of a call whose box sends this message while it runs, and of the next call."""

    async def run() -> tuple[Outcome, Outcome]:
        def forge() -> Any:
            for data in said:
                backend.boxes[-1]._deliver(data)
            return script(hangs())

        backend = FakeBackend({"forge": forge, "tool": 1})
        async with AsyncSandbox(backend=backend) as sandbox:
            return await sandbox.run("def forge(): ..."), await sandbox.run("def tool(): ...")

    return virtual_time.run(run())


@pytest.mark.parametrize(
    "said",
    [
        pack_message({"type": "fault", **FAULT}),
        *(pack_chunk(Chunk(1, Stream.WALLS, record)) for record in FORGED_WALLS.values()),
    ],
    ids=["a fault", *FORGED_WALLS],
)
def test_an_unexpected_message_crashes_the_running_call(said: bytes) -> None:
    outcome, following = outcomes_after_message(said)
    assert (outcome.status, outcome.evidence.get("box")) == (Status.CRASHED, "lost")
    assert "haha" not in str(outcome)
    assert following.value == 1


@pytest.mark.parametrize(("isolation", "cpu_s"), [(Isolation.MACHINE, 1.5), (Isolation.PROCESS, 0.0)])
def test_a_forged_reply_changes_nothing_that_was_measured(isolation: Isolation, cpu_s: float) -> None:
    async def run() -> Outcome:
        def forge() -> Any:
            box = backend.boxes[0]
            box.protection = replace(box.protection, isolation=isolation)
            box.use(0, Reading(cpu_s=1.5))
            box._deliver(pack_chunk(Chunk(1, Stream.VALUE, packed(VALUE))))
            box._deliver(pack_message({"type": "returned", "id": 1, "cpu_before": 1e6}))
            return hangs()

        backend = FakeBackend({"forge": forge})
        async with AsyncSandbox(backend=backend) as sandbox:
            return await sandbox.run("def forge(): ...")

    outcome = virtual_time.run(run())
    assert (outcome.status, outcome.usage.cpu_s) == (Status.OK, cpu_s)


@pytest.mark.parametrize("walls", [None, {"haha": 1}], ids=["not at all", "in no known way"])
def test_a_call_without_measured_isolation_has_crashed(walls: Any) -> None:
    async def run() -> Outcome:
        backend = FakeBackend({"tool": 1})
        async with AsyncSandbox(backend=backend) as sandbox:
            await sandbox.prepare("def tool(): ...")
            backend.boxes[0]._runner._walls = walls
            return await sandbox.run("def tool(): ...")

    outcome = virtual_time.run(run())
    assert (outcome.status, outcome.value, outcome.receipt) == (Status.CRASHED, None, None)
    assert outcome.error is not None
    assert "layers" in outcome.error.message
