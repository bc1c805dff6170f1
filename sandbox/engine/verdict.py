"""The verdict: one status for the end of a call, with the evidence for it.

Pure functions of values. The order of causes is the point:

1. the engine's own kill (cancelled, out of time, over a limit that the engine watches), if that kill ended the call;
2. a claim of the box that the measurements from outside contradict: the box is then not believed;
3. the kernel (out of memory, out of processor time, a forbidden system call);
4. the tool's reply, which only speaks about the tool itself;
5. the end of its process, if there is no reply.

A reply therefore counts only if nothing outside contradicts it. A process that replied and was then ended by a signal,
or with a code that does not go with its reply, did not end as it claims. A *value* ends the call, however: the process
may do anything after it, unobserved, and the outside is asked only for its state until then (see `supervisor`). Forging
a value gains a tool no more than returning one. The evidence reports everything that a tool survived (a refused fork, a
child killed for its memory) without changing the status.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import JsonValue

from sandbox.engine.classification import DETAIL, classify
from sandbox.engine.replies import MAX_PARTS, TooManyParts, Unreadable, is_sent, read_answer
from sandbox.engine.result import CallEnd, KillReason
from sandbox.outcome import Failure, Problem, Status
from sandbox.policy import format_bytes, format_seconds
from sandbox.protocol.messages import (
    DeniedReply,
    ExceptionReply,
    ExitedReply,
    InvalidReply,
    TooLargeReply,
    ValueReply,
)
from sandbox.tools.arguments import MAX_PROBLEMS, path_of

_EXIT_CODES: Final = {
    ValueReply: 0,
    ExceptionReply: 0,
    InvalidReply: 0,
    DeniedReply: 0,
    TooLargeReply: 0,
    TooManyParts: 0,
    ExitedReply: 1,
}
"""The exit code of a runner's child after each reply."""
_MAX_CODE: Final = 1 << 31
"""The code that a runner reports for any larger one, of either sign."""
_NO_MORE_THREADS: Final = ("RuntimeError", "can't start new thread")
"""The error of `threading` when the kernel refuses a thread. The error has no errno."""
_OUT_OF_TIME: Final = frozenset({signal.SIGXCPU, signal.SIGKILL})
"""The signals that the kernel sends to a process that has used up its processor time."""
_MIN_SHARE: Final = 0.5
"""A call that used less than this share of a limit was not killed over it, however late the measurement came."""
# Twice as long as a runner sends, which shortens with more care: these bound only a reply that the tool forged.
_MAX_WARNINGS, _MAX_WARNING = 20, 1000
_MAX_NAME, _MAX_MESSAGE, _MAX_TRACEBACK = 200, 8192, 32768


@dataclass(frozen=True, slots=True)
class Verdict:
    """The part of the outcome that says how the call ended."""

    status: Status
    error: Failure | None = None
    value: JsonValue = None
    limit_name: str | None = None
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    detail: str | None = None
    state: JsonValue = None
    problems: tuple[Problem, ...] = ()
    is_result: bool = False
    """Whether the value is a `ToolResult`."""


def judge(end: CallEnd) -> Verdict:
    """Return the verdict on one call."""
    verdict = (
        _by_the_engine(end) or _by_the_outside(end) or _by_the_kernel(end) or _by_its_reply(end) or _by_its_exit(end)
    )
    facts = _facts(end)
    return replace(verdict, evidence={**facts, **verdict.evidence}) if facts else verdict


def _facts(end: CallEnd) -> dict[str, JsonValue]:
    """Return the counters that are not zero."""
    ended, reading = end.ended, end.reading
    if not (ended.signal or reading.out_of_memory_kills or reading.refused_forks):
        return {}
    seen: dict[str, JsonValue] = {
        "signal": _signal_name(ended.signal),
        "out_of_memory_kills": reading.out_of_memory_kills or None,
        "refused_forks": reading.refused_forks or None,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _by_the_engine(end: CallEnd) -> Verdict | None:
    if end.ended.killed_by != "engine" and not (end.kill_reason and end.was_lost):
        return None
    limits = end.limits
    if end.value_overflowed:
        return _limit("value", f"its value is larger than {format_bytes(limits.value)}", limits.value)
    if end.kill_reason is KillReason.CANCELLED:
        return Verdict(Status.CANCELLED, Failure(type="Cancelled", message="the caller cancelled the call"))
    if end.kill_reason is KillReason.TIMEOUT:
        message = f"the call was killed after {format_seconds(limits.wall)}"
        evidence: dict[str, JsonValue] = {"limit": limits.wall, "measured": round(end.wall_s, 3), "where": "box"}
        return Verdict(Status.TIMEOUT, Failure(type="Timeout", message=message), limit_name="wall", evidence=evidence)
    if end.kill_reason is KillReason.OUTPUT:
        return _limit("output", f"it printed more than {format_bytes(limits.output)} on one stream", limits.output)
    if end.kill_reason is KillReason.CPU:
        return _cpu(end)
    return None


def contradicted(reason: str) -> Verdict:
    """Return the verdict on a call whose box contradicted itself, so that nothing of it is believed."""
    return Verdict(Status.CRASHED, Failure(type="ProtocolError", message=reason))


def _by_the_outside(end: CallEnd) -> Verdict | None:
    # The runner watches limits only if nothing outside counts them. If something does, another process in the box made
    # the claim that the call was killed over a limit.
    reading, limits = end.reading, end.limits
    measured = {"memory": reading.memory_peak_bytes, "cpu": reading.cpu_s, "processes": reading.processes_peak}
    name = end.ended.killed_by or ""
    seen = measured.get(name)
    if (
        seen is None
        or seen >= getattr(limits, name) * _MIN_SHARE
        or reading.out_of_memory_kills
        or reading.refused_forks
    ):
        return None
    verdict = contradicted(
        f"its box reported a kill over the limit of {name}, and measurements show that the call was far from it"
    )
    return replace(verdict, evidence={"limit": getattr(limits, name), "measured": seen})


def _by_the_kernel(end: CallEnd) -> Verdict | None:
    ended = end.ended
    if ended.killed_by == "memory" or (end.reading.out_of_memory_kills and not _ended_after_a_reply(end)):
        return _memory(end)
    if ended.killed_by == "cpu" or (ended.signal in _OUT_OF_TIME and _used_up_cpu(end)):
        return _cpu(end)
    if ended.killed_by == "processes":
        message = "it had too many processes and threads"
        return _limit("processes", message, end.limits.processes, measured=ended.seen)
    return None


def _ended_after_a_reply(end: CallEnd) -> bool:
    """Return whether there is a reply, and nothing outside contradicts it yet."""
    return is_sent(end.value) and end.ended.signal is None


def _by_its_reply(end: CallEnd) -> Verdict | None:
    if not _ended_after_a_reply(end):
        return None
    reply = end.answer or read_answer(end.value)
    if isinstance(reply, Unreadable):
        return _unreadable(end, reply)
    if end.ended.exit_code not in (None, _EXIT_CODES[type(reply)]):
        return None
    return _JUDGED[type(reply)](end, reply)


def _returned(_: CallEnd, reply: ValueReply) -> Verdict:
    status = classify(reply.value, ok=reply.ok)
    failure = None
    if status.status is not Status.OK:
        failure = Failure(type=status.status.value.capitalize(), message=status.message)
    return Verdict(
        status.status,
        failure,
        value=reply.value,
        warnings=_warnings(reply),
        detail=status.detail,
        state=reply.state,
        is_result=reply.ok is not None,
    )


def _too_large(end: CallEnd, reply: TooLargeReply) -> Verdict:
    limit = end.limits.value
    return _limit("value", f"its value is larger than {format_bytes(limit)}", limit, measured=reply.bytes)


def _too_many(_: CallEnd, reply: TooManyParts) -> Verdict:
    message = f"its value has {reply.parts} parts, more than the {MAX_PARTS} that are read"
    verdict = _limit("value", message, MAX_PARTS, measured=reply.parts)
    return replace(verdict, evidence={**verdict.evidence, "unit": "parts"})  # the policy's limit is one of bytes


def _invalid(_: CallEnd, reply: InvalidReply) -> Verdict:
    problems = tuple(
        Problem(path=path_of(each.path), message=each.message[:_MAX_WARNING]) for each in reply.problems[:MAX_PROBLEMS]
    )
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    failure = Failure(type="InvalidArguments", message="; ".join(lines)[:_MAX_MESSAGE])
    return Verdict(Status.INVALID, failure, problems=problems)


def _denied(_: CallEnd, reply: DeniedReply) -> Verdict:
    message = reply.message[:_MAX_MESSAGE]
    return Verdict(Status.DENIED, Failure(type="PermissionNeeded", message=message), detail=message[:DETAIL])


def _warnings(reply: ValueReply | ExceptionReply) -> tuple[str, ...]:
    return tuple([text[:_MAX_WARNING] for text in reply.warnings[:_MAX_WARNINGS]]) if reply.warnings else ()


def _unreadable(end: CallEnd, reply: Unreadable) -> Verdict | None:
    # The tool forged it, or was killed while it wrote.
    if end.was_lost or end.ended.exit_code:
        return None
    return Verdict(Status.EXCEPTION, Failure(type="UnreadableReply", message=reply.reason[:500]))


def _raised(end: CallEnd, reply: ExceptionReply) -> Verdict:
    error = reply.error
    failure = Failure(
        type=error.type[:_MAX_NAME],
        message=error.message[:_MAX_MESSAGE],
        traceback=error.traceback[:_MAX_TRACEBACK] or None,
    )
    if reply.memory:
        limit = end.limits.memory
        return Verdict(Status.MEMORY, failure, limit_name="memory", evidence={"limit": limit, "raised": failure.type})
    name = _LIMITS_BY_ERRNO.get(reply.errno or 0)
    if name is None and (error.type, error.message) == _NO_MORE_THREADS:
        name = _processes
    limit_name = name(end) if name else None
    if limit_name is None:
        return Verdict(Status.EXCEPTION, failure, warnings=_warnings(reply))
    evidence: dict[str, JsonValue] = {"limit": getattr(end.limits, limit_name), "raised": failure.type}
    return Verdict(Status.LIMIT, failure, limit_name=limit_name, evidence=evidence)


_JUDGED: Final[dict[type, Callable[[CallEnd, Any], Verdict]]] = {
    ValueReply: _returned,
    ExceptionReply: _raised,
    InvalidReply: _invalid,
    DeniedReply: _denied,
    TooLargeReply: _too_large,
    TooManyParts: _too_many,
    ExitedReply: lambda _, reply: _exited(reply.code),
}


def _disk_or_inodes(end: CallEnd) -> str | None:
    """Return which of the two ran out, seen from outside, or None if another file system is full."""
    if end.ended.inodes_free == 0:
        return "inodes"
    is_full = end.ended.bytes_free is not None and end.ended.bytes_free <= end.limits.disk // 8
    return "disk" if is_full else None


def _processes(end: CallEnd) -> str | None:
    """Return whether a refused process or thread met the limit.

    A control group counts the refusals at its own limit. If a limit inside is met first, the group knows the highest
    number of processes. Without a group, the refusal is all there is.
    """
    reading = end.reading
    if reading.refused_forks:
        return "processes"
    if reading.processes_at_most is not None:
        return "processes" if reading.processes_at_most >= end.limits.processes else None
    return "processes" if reading.processes_peak is None else None


_LIMITS_BY_ERRNO: Final[dict[int, Callable[[CallEnd], str | None]]] = {
    errno.ENOSPC: _disk_or_inodes,
    errno.EFBIG: lambda _: "file_size",
    errno.EMFILE: lambda _: "open_files",
    errno.EAGAIN: _processes,
}


def _by_its_exit(end: CallEnd) -> Verdict:
    ended = end.ended
    if ended.exit_code is not None and not end.was_lost:
        return _exited(ended.exit_code, reason="its process ended without a reply")
    if end.was_lost or ended.signal is None:
        message = "the runner died, and the call with it"
        return Verdict(Status.CRASHED, Failure(type="BoxLost", message=message), evidence={"box": "lost"})
    name = _signal_name(ended.signal) or "a signal"
    message = f"its process was ended by {name}"
    if ended.signal == signal.SIGSYS:
        message = "it made a system call that is never allowed, and was killed for it"
    return Verdict(Status.CRASHED, Failure(type=name, message=message))


def _exited(code: int, *, reason: str = "it asked to exit") -> Verdict:
    beyond = " or beyond" if abs(code) == _MAX_CODE else ""
    failure = Failure(type="SystemExit", message=f"{reason}, with code {code}{beyond}")
    return Verdict(Status.EXITED, failure, evidence={"exit_code": code})


def _memory(end: CallEnd) -> Verdict:
    limit, peak = end.limits.memory, end.reading.memory_peak_bytes or _seen(end)
    message = f"it needed more than {format_bytes(limit)} of memory"
    evidence: dict[str, JsonValue] = {"limit": limit, "measured": peak}
    return Verdict(Status.MEMORY, Failure(type="OutOfMemory", message=message), limit_name="memory", evidence=evidence)


def _seen(end: CallEnd) -> int | None:
    """Return the memory for which the runner killed the call, if nothing outside counts memory."""
    is_of_memory = end.ended.killed_by == "memory" and end.ended.seen is not None
    return int(end.ended.seen or 0) if is_of_memory else None


def _cpu(end: CallEnd) -> Verdict:
    spent = _cpu_s(end)
    return _limit("cpu", f"it used {format_seconds(end.limits.cpu)} of processor time", end.limits.cpu, measured=spent)


def _used_up_cpu(end: CallEnd) -> bool:
    return (_cpu_s(end) or 0.0) >= end.limits.cpu


def _cpu_s(end: CallEnd) -> float | None:
    return end.ended.cpu_s if end.reading.cpu_s is None else end.reading.cpu_s


def _limit(name: str, message: str, limit: float, *, measured: float | None = None) -> Verdict:
    evidence: dict[str, JsonValue] = {"limit": limit}
    if measured is not None:
        evidence["measured"] = measured
    return Verdict(Status.LIMIT, Failure(type="LimitExceeded", message=message), limit_name=name, evidence=evidence)


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
