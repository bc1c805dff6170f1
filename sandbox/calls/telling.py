"""What is told of a call: everything that was seen of it, as one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sandbox.calls.prepared import Prepared
from sandbox.calls.receipts import build_receipt, is_at_least, read_walls
from sandbox.calls.shaped_outputs import shape_outputs
from sandbox.calls.verdict import Ending, judge
from sandbox.calls.watching import Watcher
from sandbox.errors import IsolationUnavailable
from sandbox.outcome import EnvironmentUsed, Failure, Outcome, Problem, Receipt, Status, Timing, ToolName, Usage
from sandbox.outputs.shaping import STDERR_TYPE, STDOUT_TYPE, nothing
from sandbox.pool import Loan, WarmBox
from sandbox.wire.messages import Returned

_MOST_RECEIPTS: Final = 64


def invalid_outcome(call: Prepared, problems: Sequence[Problem]) -> Outcome:
    """The arguments do not fit: nothing ran, and the reasons are made for a model to read."""
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    call.clock.mark("ended")
    total = call.clock.milliseconds(None, "ended")
    return Outcome(
        status=Status.INVALID,
        error=Failure(type="InvalidArguments", message="; ".join(lines)[:4000]),
        problems=tuple(problems),
        stdout=nothing(STDOUT_TYPE),
        stderr=nothing(STDERR_TYPE),
        shaped_value=nothing("json_data"),
        usage=Usage(wall_s=0.0),
        tool=ToolName(name=call.tool.name),
        timing=Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=0, total_ms=total, path="cold"),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


async def outcome_of(loan: Loan, call: Prepared, watcher: Watcher, ending: Ending) -> Outcome:
    """Everything that was seen, as one document."""
    verdict = judge(ending)
    shaped = await shape_outputs(watcher, verdict, call.budgets, size=len(ending.value))
    is_walled = bool(watcher.call.walls) or _must_be_walled(ending)
    receipt = _receipt(loan.warm, call, bytes(watcher.call.walls)) if is_walled else None
    return Outcome(
        status=verdict.status,
        value=verdict.value,
        error=verdict.error,
        detail=verdict.detail,
        state=verdict.state,
        stdout=shaped.stdout,
        stderr=shaped.stderr,
        shaped_value=shaped.value,
        usage=_usage(ending, watcher.call.returned),
        limit_name=verdict.limit_name,
        evidence=verdict.evidence,
        warnings=(*verdict.warnings, *shaped.warnings),
        problems=verdict.problems,
        artifacts=tuple(shaped.artifacts),
        refused=shaped.refused,
        receipt=receipt,
        environment=EnvironmentUsed(key=call.environment.key, lock_digest=call.environment.lock_digest),
        tool=ToolName(name=call.tool.name),
        timing=_timing(loan, call, watcher),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


def _receipt(warm: WarmBox, call: Prepared, walls: bytes) -> Receipt:
    """What protected the host; raises `IsolationUnavailable` when that is less than the policy accepts."""
    known = (walls, call.policy.name, call.policy.digest)
    if known in warm.receipts:
        return warm.receipts[known]
    receipt = build_receipt(
        warm.box.protection,
        read_walls(walls, policy=call.box_policy, around=warm.box.protection.layers),
        policy=call.policy,
        environment_key=call.environment.key,
        limits=call.policy.limits.model_dump(),
    )
    if not is_at_least(receipt, call.policy.isolation.minimum):
        raise IsolationUnavailable(f"the box was {receipt.isolation}, weaker than policy '{call.policy.name}' accepts")
    if len(warm.receipts) < _MOST_RECEIPTS:
        warm.receipts[known] = receipt
    return receipt


def _must_be_walled(ending: Ending) -> bool:
    """Whether the tool can have run: a call that ended by itself has described its walls before."""
    return bool(ending.value) or (ending.ended.exit_code is not None and ending.ended.killed_by is None)


def _usage(ending: Ending, returned: Returned | None) -> Usage:
    """What it cost, from outside; what its child had used before the call came is not the call's."""
    cpu = ending.ended.cpu_s if ending.reading.cpu_s is None else ending.reading.cpu_s
    before = 0.0 if returned is None else returned.cpu_before
    peak = ending.reading.memory_peak_bytes
    return Usage(
        wall_s=round(ending.wall_s, 6),
        cpu_s=None if cpu is None else round(max(cpu - before, 0.0), 6),
        memory_peak_bytes=ending.ended.max_rss if peak is None else peak,
        processes_peak=ending.reading.processes_peak,
    )


def _timing(loan: Loan, call: Prepared, watcher: Watcher) -> Timing:
    clock, started = call.clock, watcher.call.started
    clock.mark("done")
    return Timing(
        queue_ms=clock.milliseconds("equipped", "admitted"),
        environment_ms=clock.milliseconds(None, "equipped"),
        box_ms=clock.milliseconds("admitted", "boxed"),
        run_ms=clock.milliseconds("boxed", "ended"),
        total_ms=clock.milliseconds(None, "done"),
        path=loan.path,
        ahead=started is not None and started.ahead,
        preloaded=loan.warm.preloaded,
    )
