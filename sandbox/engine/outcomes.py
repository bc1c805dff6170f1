"""What is told of a call: everything that was seen of it, as one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from sandbox.backends.hints import missing_walls
from sandbox.egress import NETWORK
from sandbox.engine.prepared_call import PreparedCall
from sandbox.engine.receipts import build_receipt, egress_label, is_at_least, read_walls
from sandbox.engine.replies import LARGE_BYTES, aside
from sandbox.engine.shaped_outputs import (
    ShapedOutputs,
    has_more,
    keep_outputs,
    shape_outputs,
    shape_verdict,
)
from sandbox.engine.supervisor import CallSupervisor
from sandbox.engine.verdict import CallEnd, Verdict, contradicted, judge
from sandbox.errors import IsolationUnavailable, ProtocolError
from sandbox.outcome import Failure, Isolation, Outcome, Problem, Receipt, Status, Timing, Usage, printable
from sandbox.outputs.shapes import STDERR_TYPE, STDOUT_TYPE
from sandbox.outputs.shaping import nothing
from sandbox.pool.pool import Lease, PooledBox
from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import ImportUse
from sandbox.unchecked import unchecked

_MOST_RECEIPTS: Final = 64


def invalid_outcome(call: PreparedCall, problems: Sequence[Problem]) -> Outcome:
    """The arguments do not fit: nothing ran, and the reasons are made for a model to read."""
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    total = call.clock.spans()["total_ms"]
    return Outcome(
        status=Status.INVALID,
        error=Failure(type="InvalidArguments", message="; ".join(lines)[:4000]),
        problems=tuple(problems),
        stdout=nothing(STDOUT_TYPE),
        stderr=nothing(STDERR_TYPE),
        shaped_value=nothing("json_data"),
        usage=Usage(wall_s=0.0),
        tool=call.recipe.tool_name,
        timing=Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=0, total_ms=total, path="cold"),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


async def build_outcome(lease: Lease, call: PreparedCall, watcher: CallSupervisor, ending: CallEnd) -> Outcome:
    """Everything that was seen, as one document; what is not shown as a whole is kept."""
    receipt, verdict = _judged(lease, call, watcher, ending)
    budgets = watcher.budgets
    is_quick = len(ending.value) <= LARGE_BYTES and budgets.tokenizer is None
    value = (
        shape_verdict(verdict, budgets)
        if is_quick
        else await aside(partial(shape_verdict, verdict, budgets), watcher.threads)
    )
    shaped = await shape_outputs(watcher, value) if watcher.has_left else ShapedOutputs(*budgets.silence, value)
    if has_more(shaped, watcher, verdict.value):
        await keep_outputs(shaped, watcher, verdict, budgets)
    return _told(lease, call, watcher, ending, verdict=verdict, shaped=shaped, receipt=receipt)


def cancelled_outcome(lease: Lease, call: PreparedCall, watcher: CallSupervisor) -> Outcome:
    """What was seen of a call until its caller was cancelled. Nothing is waited for any more, and nothing kept."""
    ending = watcher.ending_cut_short()
    receipt, verdict = _judged(lease, call, watcher, ending)
    stdout, stderr = [watcher.shown(stream) for stream in (Stream.STDOUT, Stream.STDERR)]
    shaped = ShapedOutputs(stdout, stderr, shape_verdict(verdict, watcher.budgets))
    return _told(lease, call, watcher, ending, verdict=verdict, shaped=shaped, receipt=receipt)


def _judged(
    lease: Lease, call: PreparedCall, watcher: CallSupervisor, ending: CallEnd
) -> tuple[Receipt | None, Verdict]:
    """What protected the host, and what became of the call; of one whose box contradicted itself, that."""
    try:
        return _receipt(lease.pooled, call, watcher, ending), judge(ending)
    except ProtocolError as error:
        return None, contradicted(error.message)


def _told(
    lease: Lease,
    call: PreparedCall,
    watcher: CallSupervisor,
    ending: CallEnd,
    *,
    verdict: Verdict,
    shaped: ShapedOutputs,
    receipt: Receipt | None,
) -> Outcome:
    """The document, where all that it says is at hand."""
    imported = _import_to_report(lease.pooled)
    fields = {
        "status": verdict.status,
        "value": verdict.value,
        "error": verdict.error,
        "stdout": shaped.stdout,
        "stderr": shaped.stderr,
        "shaped_value": shaped.value,
        "usage": _usage(ending, cpu_before=_cpu_before(lease.pooled, watcher), imported=imported),
        "limit_name": verdict.limit_name,
        "evidence": _with_traffic(_with_environment(verdict.evidence, call, watcher), lease.pooled, watcher, receipt),
        "retryable": False,
        "warnings": tuple(map(printable, (*verdict.warnings, *shaped.warnings, *_of_its_box(lease.pooled)))),
        "problems": verdict.problems,
        "detail": verdict.detail and printable(verdict.detail),
        "state": verdict.state,
        "artifacts": tuple(shaped.artifacts),
        "refused": shaped.refused,
        "receipt": receipt,
        "environment": call.recipe.environment_used,
        "tool": call.recipe.tool_name,
        "timing": _timing(lease, call, watcher, imported),
        "call_id": call.spec.call_id,
        "trace_id": call.spec.trace_id and printable(call.spec.trace_id),
    }
    return unchecked(Outcome, fields)


def _receipt(pooled: PooledBox, call: PreparedCall, watcher: CallSupervisor, ending: CallEnd) -> Receipt | None:
    """What protected the host, if anything ran; raises `IsolationUnavailable` when that is less than the policy
    accepts, and `ProtocolError` when nobody can tell."""
    walls = bytes(watcher.call.walls)
    if not (walls or _must_be_walled(ending)):
        return None
    if not walls and ending.value:
        raise ProtocolError("a box told of a value, and of no walls")
    recipe, policy = call.recipe, call.recipe.policy
    known = (walls, policy.name, policy.digest)
    if known in pooled.receipts:
        return pooled.receipts[known]
    receipt = build_receipt(
        pooled.box.protection,
        read_walls(walls, policy=recipe.box_policy, around=pooled.box.protection.layers, was_lost=ending.was_lost),
        policy=policy,
        environment_key=recipe.environment.key,
        limits=policy.limits.model_dump(),
    )
    if not is_at_least(receipt, policy.isolation.minimum):
        raise IsolationUnavailable(f"the box was {receipt.isolation}, weaker than policy '{policy.name}' accepts")
    if len(pooled.receipts) < _MOST_RECEIPTS:
        pooled.receipts[known] = receipt
    return receipt


def _with_traffic(
    evidence: dict[str, Any], pooled: PooledBox, watcher: CallSupervisor, receipt: Receipt | None
) -> dict[str, Any]:
    """With what went over its network, where that is the engine's proxy; nothing of the call went by another way."""
    if receipt is None or receipt.network != NETWORK:
        return evidence
    books = pooled.box.books(egress_label(bytes(watcher.call.walls)))
    if books is None:
        reason = "the engine was handed nothing to answer its connections on"
        raise missing_walls(["egress filter"], policy=pooled.policy, reason=reason)
    return {**evidence, "network": books.evidence()}


def _with_environment(evidence: dict[str, Any], call: PreparedCall, watcher: CallSupervisor) -> dict[str, Any]:
    """Add what the environment's packages did that kept the call from sharing their import, if anything."""
    fault = watcher.call.environment_fault
    if not fault:
        return evidence
    return {**evidence, "environment": {"key": call.recipe.environment.key, "preloaded": False, "note": fault}}


def _import_to_report(pooled: PooledBox) -> ImportUse | None:
    """What importing packages ahead used in this box: the box's first outcome says it."""
    if pooled.is_import_reported:
        return None
    pooled.is_import_reported = True
    return pooled.hello.preload


def _must_be_walled(ending: CallEnd) -> bool:
    """Whether the tool can have run: a call that ended by itself has described its walls before."""
    return bool(ending.value) or (ending.ended.exit_code is not None and ending.ended.killed_by is None)


def _of_its_box(pooled: PooledBox) -> Sequence[str]:
    """What there is to warn of where limits were set and found not to hold."""
    return pooled.box.protection.notes if pooled.box.protection.loose else ()


def _cpu_before(pooled: PooledBox, watcher: CallSupervisor) -> float:
    """What the call's child had used before the call came, as its runner says. In a kernel of its own a tool can speak
    where its runner does, and nothing that is said there makes less of what was measured."""
    return 0.0 if pooled.box.protection.isolation is Isolation.MACHINE else watcher.cpu_before


def _usage(ending: CallEnd, *, cpu_before: float, imported: ImportUse | None) -> Usage:
    """What it cost, from outside; what its child had used before the call came is not the call's."""
    cpu = ending.ended.cpu_s if ending.reading.cpu_s is None else ending.reading.cpu_s
    peak = ending.reading.memory_peak_bytes
    fields = {
        "wall_s": _to_the_microsecond(ending.wall_s),
        "cpu_s": None if cpu is None else _to_the_microsecond(max(cpu - cpu_before, 0.0)),
        "memory_peak_bytes": ending.ended.max_rss if peak is None else peak,
        "processes_peak": ending.reading.processes_peak,
        "preload_cpu_s": None if imported is None else imported.cpu_s,
        "preload_memory_bytes": None if imported is None else imported.memory,
    }
    return unchecked(Usage, fields)


def _to_the_microsecond(seconds: float) -> float:
    """`round` takes several times as long."""
    return int(seconds * 1e6 + 0.5) / 1e6


def _timing(lease: Lease, call: PreparedCall, watcher: CallSupervisor, imported: ImportUse | None) -> Timing:
    fields = call.clock.spans()
    fields["preload_ms"] = 0.0 if imported is None else int(imported.wall_s * 1e6) / 1e3
    fields |= {
        "path": lease.path,
        "ahead": watcher.call.was_ahead,
        "preloaded": lease.pooled.preloaded and not watcher.call.environment_fault,
    }
    return unchecked(Timing, fields)
