"""The verdict: from what was seen of a call's end to one status, with the evidence for it.

Pure functions of values. The order in which causes are looked at is the whole point:

1. what *we* did to it (cancelled, out of time, over a limit that we watch) is why it ended, if our kill ended it;
2. what its box says that cannot be so, by what was measured from outside: then the box is not believed;
3. what the kernel did to it (out of memory, out of processor time, a forbidden system call);
4. what the tool said in its reply, which only speaks about itself;
5. how its process ended, when it said nothing.

So inside and outside never contradict each other unseen: a reply counts only where nothing outside says otherwise. A
process that replied and was then ended by a signal, or with a code that does not go with its reply, did not end as it
says. A *value* ends the call, though: what its process does after it has given one is neither waited for nor part of
the call (see `watching`), so the outside is asked for what it says until then. Nobody gains more by forging a value
than by returning it. What a tool survived (a refused fork, a child killed for its memory) is told in the evidence and
does not change the status.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from sandbox.engine.classification import DETAIL, classify
from sandbox.engine.replies import MOST_PARTS, Answer, TooManyParts, Unreadable, is_sent, read_answer
from sandbox.outcome import Failure, Problem, Status
from sandbox.policy import Limits, format_bytes, format_seconds
from sandbox.protocol.messages import (
    DeniedReply,
    Ended,
    ExceptionReply,
    ExitedReply,
    InvalidReply,
    TooLargeReply,
    ValueReply,
)
from sandbox.protocols import Reading
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
"""What a runner's child exits with after each reply."""
_LARGEST_CODE: Final = 1 << 31
"""As which a runner tells any code that is larger, either way."""
_NO_MORE_THREADS: Final = ("RuntimeError", "can't start new thread")
"""How `threading` says that the kernel refused one; it has no errno."""
_OUT_OF_TIME: Final = frozenset({signal.SIGXCPU, signal.SIGKILL})
"""What the kernel sends a process that has used up its processor time."""
_FAR: Final = 0.5
"""Of a limit: what used less of it was not killed over it, however late it was looked at."""
_MOST_WARNINGS, _LONGEST_WARNING = 20, 1000
_LONGEST_NAME, _LONGEST_MESSAGE, _LONGEST_TRACEBACK = 200, 8192, 32768
"""Twice what a runner sends, which shortens with more care: these only meet a reply that the tool forged."""


class KillReason(StrEnum):
    """Why the engine ended a call."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OUTPUT = "output"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class CallEnd:
    """All that was seen of a call's end."""

    ended: Ended
    value: bytes
    limits: Limits
    reading: Reading
    wall_s: float
    stopped_for: KillReason | None = None
    was_lost: bool = False
    value_overflowed: bool = False
    answer: Answer | None = None
    """What the reply says, where it has been read already."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the outcome says about it."""

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


def judge(ending: CallEnd) -> Verdict:
    """The verdict on one call."""
    verdict = (
        _by_the_engine(ending)
        or _by_the_outside(ending)
        or _by_the_kernel(ending)
        or _by_its_reply(ending)
        or _by_its_exit(ending)
    )
    facts = _facts(ending)
    return replace(verdict, evidence={**facts, **verdict.evidence}) if facts else verdict


def _facts(ending: CallEnd) -> dict[str, JsonValue]:
    """The counters that are not zero."""
    ended, reading = ending.ended, ending.reading
    if not (ended.signal or reading.out_of_memory_kills or reading.refused_forks):
        return {}
    seen: dict[str, JsonValue] = {
        "signal": _signal_name(ended.signal),
        "out_of_memory_kills": reading.out_of_memory_kills or None,
        "refused_forks": reading.refused_forks or None,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _by_the_engine(ending: CallEnd) -> Verdict | None:
    if ending.ended.killed_by != "engine" and not (ending.stopped_for and ending.was_lost):
        return None
    limits = ending.limits
    if ending.value_overflowed:
        return _limit("value", f"its value is larger than {format_bytes(limits.value)}", limits.value)
    if ending.stopped_for is KillReason.CANCELLED:
        return Verdict(Status.CANCELLED, Failure(type="Cancelled", message="the caller cancelled the call"))
    if ending.stopped_for is KillReason.TIMEOUT:
        message = f"the call was killed after {format_seconds(limits.wall)}"
        evidence: dict[str, JsonValue] = {"limit": limits.wall, "measured": round(ending.wall_s, 3), "where": "box"}
        return Verdict(Status.TIMEOUT, Failure(type="Timeout", message=message), limit_name="wall", evidence=evidence)
    if ending.stopped_for is KillReason.OUTPUT:
        return _limit("output", f"it printed more than {format_bytes(limits.output)} on one stream", limits.output)
    if ending.stopped_for is KillReason.CPU:
        return _cpu(ending)
    return None


def contradicted(reason: str) -> Verdict:
    """What its box says of the call cannot be so; that of it nothing else is believed either."""
    return Verdict(Status.CRASHED, Failure(type="ProtocolError", message=reason))


def _by_the_outside(ending: CallEnd) -> Verdict | None:
    """Somebody in the box says that the call was killed for a limit which, measured from outside, it was far from. Who
    watches over limits from inside does so only where nothing outside counts, so it was not them."""
    reading, limits = ending.reading, ending.limits
    measured = {"memory": reading.memory_peak_bytes, "cpu": reading.cpu_s, "processes": reading.processes_peak}
    name = ending.ended.killed_by or ""
    seen = measured.get(name)
    if seen is None or seen >= getattr(limits, name) * _FAR or reading.out_of_memory_kills or reading.refused_forks:
        return None
    verdict = contradicted(f"its box said that it was killed over its limit of {name}, from which it was far")
    return replace(verdict, evidence={"limit": getattr(limits, name), "measured": seen})


def _by_the_kernel(ending: CallEnd) -> Verdict | None:
    ended = ending.ended
    if ended.killed_by == "memory" or (ending.reading.out_of_memory_kills and not _ended_after_a_reply(ending)):
        return _memory(ending)
    if ended.killed_by == "cpu" or (ended.signal in _OUT_OF_TIME and _used_up_cpu(ending)):
        return _cpu(ending)
    if ended.killed_by == "processes":
        message = "it had too many processes and threads"
        return _limit("processes", message, ending.limits.processes, measured=ended.seen)
    return None


def _ended_after_a_reply(ending: CallEnd) -> bool:
    """Whether there is a reply, and nothing outside speaks against it yet."""
    return is_sent(ending.value) and ending.ended.signal is None


def _by_its_reply(ending: CallEnd) -> Verdict | None:
    if not _ended_after_a_reply(ending):
        return None
    reply = ending.answer or read_answer(ending.value)
    if isinstance(reply, Unreadable):
        return _unreadable(ending, reply)
    if ending.ended.exit_code not in (None, _EXIT_CODES[type(reply)]):
        return None
    return _JUDGED[type(reply)](ending, reply)


def _returned(_: CallEnd, reply: ValueReply) -> Verdict:
    said = classify(reply.value, ok=reply.ok)
    failure = None
    if said.status is not Status.OK:
        failure = Failure(type=said.status.value.capitalize(), message=said.message)
    return Verdict(
        said.status,
        failure,
        value=reply.value,
        warnings=_warnings(reply),
        detail=said.detail,
        state=reply.state,
        is_result=reply.ok is not None,
    )


def _too_large(ending: CallEnd, reply: TooLargeReply) -> Verdict:
    limit = ending.limits.value
    return _limit("value", f"its value is larger than {format_bytes(limit)}", limit, measured=reply.bytes)


def _too_many(_: CallEnd, reply: TooManyParts) -> Verdict:
    message = f"its value has {reply.parts} parts, more than the {MOST_PARTS} that are read"
    verdict = _limit("value", message, MOST_PARTS, measured=reply.parts)
    return replace(verdict, evidence={**verdict.evidence, "unit": "parts"})  # the policy's limit is one of bytes


def _invalid(_: CallEnd, reply: InvalidReply) -> Verdict:
    problems = tuple(
        Problem(path=path_of(each.path), message=each.message[:_LONGEST_WARNING])
        for each in reply.problems[:MAX_PROBLEMS]
    )
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    failure = Failure(type="InvalidArguments", message="; ".join(lines)[:_LONGEST_MESSAGE])
    return Verdict(Status.INVALID, failure, problems=problems)


def _denied(_: CallEnd, reply: DeniedReply) -> Verdict:
    message = reply.message[:_LONGEST_MESSAGE]
    return Verdict(Status.DENIED, Failure(type="PermissionNeeded", message=message), detail=message[:DETAIL])


def _warnings(reply: ValueReply | ExceptionReply) -> tuple[str, ...]:
    return tuple([text[:_LONGEST_WARNING] for text in reply.warnings[:_MOST_WARNINGS]])


def _unreadable(ending: CallEnd, reply: Unreadable) -> Verdict | None:
    """Something was written where the reply goes: by a tool that forged it, or that was killed while writing it."""
    if ending.was_lost or ending.ended.exit_code:
        return None
    return Verdict(Status.EXCEPTION, Failure(type="UnreadableReply", message=reply.reason[:500]))


def _raised(ending: CallEnd, reply: ExceptionReply) -> Verdict:
    told = reply.error
    failure = Failure(
        type=told.type[:_LONGEST_NAME],
        message=told.message[:_LONGEST_MESSAGE],
        traceback=told.traceback[:_LONGEST_TRACEBACK] or None,
    )
    if reply.memory:
        limit = ending.limits.memory
        return Verdict(Status.MEMORY, failure, limit_name="memory", evidence={"limit": limit, "raised": failure.type})
    name = _LIMITS_BY_ERRNO.get(reply.errno or 0)
    if name is None and (told.type, told.message) == _NO_MORE_THREADS:
        name = _processes
    limit_name = name(ending) if name else None
    if limit_name is None:
        return Verdict(Status.EXCEPTION, failure, warnings=_warnings(reply))
    evidence: dict[str, JsonValue] = {"limit": getattr(ending.limits, limit_name), "raised": failure.type}
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


def _disk_or_inodes(ending: CallEnd) -> str | None:
    """No space: which of the two ran out is seen from outside; neither, when it was another place that is full."""
    if ending.ended.inodes_free == 0:
        return "inodes"
    is_full = ending.ended.bytes_free is not None and ending.ended.bytes_free <= ending.limits.disk // 8
    return "disk" if is_full else None


def _processes(ending: CallEnd) -> str | None:
    """The kernel refused a process. A control group counts that if its limit is the one that is met. Where a limit
    inside is met first, the group knows how many there were at most. Where there is no group, only the refusal tells.
    """
    reading = ending.reading
    if reading.refused_forks:
        return "processes"
    if reading.processes_at_most is not None:
        return "processes" if reading.processes_at_most >= ending.limits.processes else None
    return "processes" if reading.processes_peak is None else None


_LIMITS_BY_ERRNO: Final[dict[int, Callable[[CallEnd], str | None]]] = {
    errno.ENOSPC: _disk_or_inodes,
    errno.EFBIG: lambda _: "file_size",
    errno.EMFILE: lambda _: "open_files",
    errno.EAGAIN: _processes,
}


def _by_its_exit(ending: CallEnd) -> Verdict:
    ended = ending.ended
    if ended.exit_code is not None and not ending.was_lost:
        return _exited(ended.exit_code, said="its process ended without telling a value")
    if ending.was_lost or ended.signal is None:
        message = "the runner died, and the call with it"
        return Verdict(Status.CRASHED, Failure(type="BoxLost", message=message), evidence={"box": "lost"})
    name = _signal_name(ended.signal) or "a signal"
    message = f"its process was ended by {name}"
    if ended.signal == signal.SIGSYS:
        message = "it made a system call that is never allowed, and was killed for it"
    return Verdict(Status.CRASHED, Failure(type=name, message=message))


def _exited(code: int, *, said: str = "it asked to exit") -> Verdict:
    beyond = ", or one beyond it" if abs(code) == _LARGEST_CODE else ""
    failure = Failure(type="SystemExit", message=f"{said}, with code {code}{beyond}")
    return Verdict(Status.EXITED, failure, evidence={"exit_code": code})


def _memory(ending: CallEnd) -> Verdict:
    limit, peak = ending.limits.memory, ending.reading.memory_peak_bytes or _seen(ending)
    message = f"it needed more than {format_bytes(limit)} of memory"
    evidence: dict[str, JsonValue] = {"limit": limit, "measured": peak}
    return Verdict(Status.MEMORY, Failure(type="OutOfMemory", message=message), limit_name="memory", evidence=evidence)


def _seen(ending: CallEnd) -> int | None:
    """The memory for which the runner killed the call, where nothing outside of the box counts it."""
    is_of_memory = ending.ended.killed_by == "memory" and ending.ended.seen is not None
    return int(ending.ended.seen or 0) if is_of_memory else None


def _cpu(ending: CallEnd) -> Verdict:
    spent = _cpu_s(ending)
    return _limit(
        "cpu", f"it used {format_seconds(ending.limits.cpu)} of processor time", ending.limits.cpu, measured=spent
    )


def _used_up_cpu(ending: CallEnd) -> bool:
    return (_cpu_s(ending) or 0.0) >= ending.limits.cpu


def _cpu_s(ending: CallEnd) -> float | None:
    return ending.ended.cpu_s if ending.reading.cpu_s is None else ending.reading.cpu_s


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
