"""The outcome of a call: one document made from its plan, its result, and the facts of its box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sandbox.backends.hints import missing_walls
from sandbox.egress import NETWORK
from sandbox.engine.plan import PreparedCall
from sandbox.engine.receipts import build_receipt, egress_label, is_at_least, read_layers
from sandbox.engine.result import CallEnd, CallResult
from sandbox.engine.shaped_outputs import ShapedOutputs, shape_at_once, shape_outputs
from sandbox.engine.verdict import Verdict, contradicted, judge
from sandbox.errors import IsolationUnavailable, ProtocolError
from sandbox.outcome import Failure, Outcome, Problem, Receipt, Status, Timing, Usage, printable
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import Budgets
from sandbox.outputs.shapes import STDERR_TYPE, STDOUT_TYPE
from sandbox.outputs.shaping import nothing
from sandbox.pool.box import Lease, PooledBox
from sandbox.protocol.messages import ImportUse
from sandbox.trusted import build_trusted

_MAX_RECEIPTS: Final = 64
_MAX_MESSAGE: Final = 4000


def invalid_outcome(call: PreparedCall, problems: Sequence[Problem]) -> Outcome:
    """Return the outcome of a call whose arguments do not fit: nothing ran, and a model can read the reasons."""
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    total = call.timing.spans()["total_ms"]
    return Outcome(
        status=Status.INVALID,
        error=Failure(type="InvalidArguments", message="; ".join(lines)[:_MAX_MESSAGE]),
        problems=tuple(problems),
        stdout=nothing(STDOUT_TYPE),
        stderr=nothing(STDERR_TYPE),
        shaped_value=nothing("json_data"),
        usage=Usage(wall_s=0.0),
        tool=call.template.tool_name,
        timing=Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=0, total_ms=total, path="cold"),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


async def build_outcome(
    call: PreparedCall, result: CallResult, lease: Lease, *, budgets: Budgets, writer: ArtifactWriter
) -> Outcome:
    """Return the outcome of a call that ended, and keep the outputs that it does not show in full."""
    receipt, verdict = _judge(call, result, lease.pooled)
    shaped = await shape_outputs(result, verdict, budgets, writer)
    return _document(call, result, lease, verdict=verdict, shaped=shaped, receipt=receipt)


def cancelled_outcome(call: PreparedCall, result: CallResult, lease: Lease) -> Outcome:
    """Return the outcome of a call until its caller was cancelled. Nothing is waited for, and nothing is kept."""
    receipt, verdict = _judge(call, result, lease.pooled)
    shaped = shape_at_once(result, verdict, call.budgets)
    return _document(call, result, lease, verdict=verdict, shaped=shaped, receipt=receipt)


def _judge(call: PreparedCall, result: CallResult, pooled: PooledBox) -> tuple[Receipt | None, Verdict]:
    """Return the receipt and the verdict. A box that contradicts itself gets no receipt."""
    try:
        return _receipt(call, result, pooled), judge(result.end)
    except ProtocolError as error:
        return None, contradicted(error.message)


def _document(
    call: PreparedCall,
    result: CallResult,
    lease: Lease,
    *,
    verdict: Verdict,
    shaped: ShapedOutputs,
    receipt: Receipt | None,
) -> Outcome:
    spec, template, pooled = call.spec, call.template, lease.pooled
    imported = _import_to_report(pooled)
    usage = result.usage
    if imported is not None:
        usage = usage.model_copy(update={"preload_cpu_s": imported.cpu_s, "preload_memory_bytes": imported.memory})
    protection = pooled.box.protection
    warnings = (*verdict.warnings, *shaped.warnings, *(protection.notes if protection.loose else ()))
    return build_trusted(
        Outcome,
        status=verdict.status,
        value=verdict.value,
        error=verdict.error,
        stdout=shaped.stdout,
        stderr=shaped.stderr,
        shaped_value=shaped.value,
        usage=usage,
        limit_name=verdict.limit_name,
        evidence=_evidence(verdict, call, result, pooled, receipt),
        retryable=False,
        warnings=tuple(map(printable, warnings)) if warnings else (),
        problems=verdict.problems,
        detail=verdict.detail and printable(verdict.detail),
        state=verdict.state,
        artifacts=tuple(shaped.artifacts),
        refused=shaped.refused,
        receipt=receipt,
        environment=template.environment_used,
        tool=template.tool_name,
        timing=_timing(call, result, lease, imported),
        call_id=spec.call_id,
        trace_id=spec.trace_id and printable(spec.trace_id),
    )


def _receipt(call: PreparedCall, result: CallResult, pooled: PooledBox) -> Receipt | None:
    """Return what protected the host, or None if nothing ran.

    Raise `IsolationUnavailable` for less than the policy accepts, and `ProtocolError` if the box described nothing.
    """
    layers = result.layers
    if not (layers or _must_be_isolated(result.end)):
        return None
    if not layers and result.end.value:
        raise ProtocolError("a box sent a value and no record of its layers")
    template, policy = call.template, call.template.policy
    # Nearly every call of a box sends the same record, so its receipts are kept with the box.
    key = (layers, policy.name, policy.digest)
    if key in pooled.receipts:
        return pooled.receipts[key]
    protection = pooled.box.protection
    measured = read_layers(layers, policy=template.box_policy, around=protection.layers, was_lost=result.end.was_lost)
    receipt = build_receipt(
        protection,
        measured,
        policy=policy,
        environment_key=template.environment.key,
        limits=policy.limits.model_dump(),
    )
    if not is_at_least(receipt, policy.isolation.minimum):
        raise IsolationUnavailable(f"the box was {receipt.isolation}, weaker than policy '{policy.name}' accepts")
    if len(pooled.receipts) < _MAX_RECEIPTS:
        pooled.receipts[key] = receipt
    return receipt


def _must_be_isolated(end: CallEnd) -> bool:
    """Return whether the tool can have run: a call that ended by itself described its layers before."""
    return bool(end.value) or (end.ended.exit_code is not None and end.ended.killed_by is None)


def _evidence(
    verdict: Verdict, call: PreparedCall, result: CallResult, pooled: PooledBox, receipt: Receipt | None
) -> dict[str, Any]:
    """Return the evidence for the verdict, with the traffic of the proxy and a fault of the environment's packages."""
    evidence: dict[str, Any] = verdict.evidence
    if result.environment_fault:
        fault: dict[str, Any] = {
            "key": call.template.environment.key,
            "preloaded": False,
            "note": result.environment_fault,
        }
        evidence = {**evidence, "environment": fault}
    if receipt is None or receipt.network != NETWORK:
        return evidence
    traffic = pooled.box.traffic(egress_label(result.layers))
    if traffic is None:
        reason = "the engine got no socket on which to answer its connections"
        raise missing_walls(["egress filter"], policy=pooled.policy, reason=reason)
    return {**evidence, "network": traffic.evidence()}


def _import_to_report(pooled: PooledBox) -> ImportUse | None:
    """Return what importing packages ahead cost, once: for the first outcome of the box."""
    if pooled.is_import_reported:
        return None
    pooled.is_import_reported = True
    return pooled.hello.preload


def _timing(call: PreparedCall, result: CallResult, lease: Lease, imported: ImportUse | None) -> Timing:
    return build_trusted(
        Timing,
        **call.timing.spans(),
        path=lease.path,
        ahead=result.was_ahead,
        preloaded=lease.pooled.preloaded and not result.environment_fault,
        preload_ms=0.0 if imported is None else int(imported.wall_s * 1e6) / 1e3,
    )
