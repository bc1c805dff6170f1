"""Every end of a call has one status, and outside facts win over contradicting reports from inside."""

from __future__ import annotations

import errno
import json
import signal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.result import CallEnd, KillReason
from sandbox.engine.verdict import Verdict, judge
from sandbox.outcome import Status
from sandbox.policy import Limits
from sandbox.protocol.messages import Ended
from sandbox.protocols import Reading

LIMITS: Final = Limits()
METERED: Final = Reading(cpu_s=0.1, memory_peak_bytes=1 << 20, processes_peak=1)
VALUE: Final[dict[str, Any]] = {"kind": "value", "value": {"n": 1}, "warnings": []}
EXITED: Final[dict[str, Any]] = {"kind": "exited", "code": 3}
TOO_LARGE: Final[dict[str, Any]] = {"kind": "too_large", "bytes": 1 << 30}


INVALID: Final[dict[str, Any]] = {"kind": "invalid", "problems": [{"path": ["a", 0], "message": "no"}]}
DENIED: Final[dict[str, Any]] = {"kind": "denied", "message": "May it?"}


def raised(
    type: str = "ValueError", *, message: str = "no", memory: bool = False, errno: int | None = None
) -> dict[str, Any]:
    error = {"type": type, "message": message, "traceback": "Traceback"}
    return {"kind": "exception", "error": error, "memory": memory, "errno": errno}


def end(**fields: Any) -> Ended:
    usual: dict[str, Any] = {
        "exit_code": 0,
        "signal": None,
        "cpu_s": 0.1,
        "max_rss": 1 << 20,
        "bytes_free": 1 << 40,
        "inodes_free": 1 << 40,
        "killed_by": None,
    }
    return Ended.model_validate({"type": "ended", "id": 1, **usual, **fields})


def died(number: int = signal.SIGKILL, **fields: Any) -> Ended:
    return end(exit_code=None, signal=int(number), **fields)


LOST: Final = end(exit_code=None, cpu_s=None, max_rss=None, bytes_free=None, inodes_free=None)
KILLED: Final = died(killed_by="engine")


def judged(
    ended: Ended | None = None, reply: dict[str, Any] | bytes = b"", *, reading: Reading = METERED, **fields: Any
) -> Verdict:
    value = reply if isinstance(reply, bytes) else packed(reply)
    return judge(CallEnd(ended or end(), value, LIMITS, reading, 1.5, **fields))


def packed(reply: dict[str, Any]) -> bytes:
    data = json.dumps(reply).encode()
    return len(data).to_bytes(4, "big") + data


# The tool's reply, without contradiction


def test_a_value_is_ok() -> None:
    verdict = judged(end(), VALUE)
    assert (verdict.status, verdict.value, verdict.error, verdict.evidence) == (Status.OK, {"n": 1}, None, {})


def test_null_is_a_value() -> None:
    verdict = judged(end(), VALUE | {"value": None})
    assert (verdict.status, verdict.value) == (Status.OK, None)


def test_warnings_are_reported_up_to_a_bound() -> None:
    verdict = judged(end(), VALUE | {"warnings": ["w" * 5000] * 100})
    assert (len(verdict.warnings), {len(warning) for warning in verdict.warnings}) == (20, {1000})


def test_an_exception_is_reported() -> None:
    verdict = judged(end(), raised())
    assert verdict.status is Status.EXCEPTION
    assert verdict.error is not None
    assert (verdict.error.type, verdict.error.message, verdict.error.traceback) == ("ValueError", "no", "Traceback")


def test_a_forged_exception_is_reported_up_to_a_bound() -> None:
    forged = raised("T" * 10**6, message="m" * 10**6)
    forged["error"]["traceback"] = "t" * 10**6
    for reply in (forged, forged | {"memory": True}, forged | {"errno": errno.EFBIG}):
        verdict = judged(end(), reply)
        assert verdict.error is not None
        told = (verdict.error.type, verdict.error.message, verdict.error.traceback or "", str(verdict.evidence))
        assert sum(map(len, told)) < 50_000


def test_a_requested_exit_is_exited_with_its_code() -> None:
    verdict = judged(end(exit_code=1), EXITED)
    assert (verdict.status, verdict.evidence) == (Status.EXITED, {"exit_code": 3})


def test_a_value_that_is_too_large_is_a_limit() -> None:
    verdict = judged(end(), TOO_LARGE)
    assert (verdict.status, verdict.limit_name) == (Status.LIMIT, "value")
    assert verdict.evidence == {"limit": LIMITS.value, "measured": 1 << 30}


@pytest.mark.parametrize(("code", "is_shortened"), [(1 << 31, True), (-(1 << 31), True), ((1 << 31) - 1, False)])
def test_an_exit_code_too_large_to_send_is_reported_as_such(code: int, is_shortened: bool) -> None:
    failure = judged(end(exit_code=1), EXITED | {"code": code}).error
    assert failure is not None
    assert failure.message.endswith("or beyond") == is_shortened


@pytest.mark.parametrize("limit", ["memory", "processes"])
def test_a_kill_by_the_runner_counts_without_other_evidence(limit: str) -> None:
    verdict = judged(died(killed_by=limit, seen=12345.0), reading=Reading(cpu_s=None))
    assert verdict.evidence["measured"] == 12345
    assert verdict.evidence["limit"] == getattr(LIMITS, limit)


def test_a_memory_error_is_the_memory_limit() -> None:
    verdict = judged(end(), raised("MemoryError", memory=True))
    assert (verdict.status, verdict.limit_name) == (Status.MEMORY, "memory")
    assert verdict.evidence == {"limit": LIMITS.memory, "raised": "MemoryError"}


@pytest.mark.parametrize(
    ("number", "ended", "reading", "limit_name"),
    [
        (errno.ENOSPC, end(bytes_free=0), METERED, "disk"),
        (errno.ENOSPC, end(bytes_free=LIMITS.disk // 8 - 1), METERED, "disk"),
        (errno.ENOSPC, end(inodes_free=0), METERED, "inodes"),
        (errno.ENOSPC, end(inodes_free=0, bytes_free=0), METERED, "inodes"),
        (errno.ENOSPC, end(), METERED, None),
        (errno.ENOSPC, end(bytes_free=None, inodes_free=None), METERED, None),
        (errno.EFBIG, end(), METERED, "file_size"),
        (errno.EMFILE, end(), METERED, "open_files"),
        (errno.EAGAIN, end(), Reading(processes_peak=64, refused_forks=1), "processes"),
        (errno.EAGAIN, end(), METERED, None),
        (errno.EAGAIN, end(), Reading(), "processes"),
        (errno.EAGAIN, end(), Reading(processes_at_most=LIMITS.processes), "processes"),
        (errno.EAGAIN, end(), Reading(processes_at_most=LIMITS.processes - 1), None),
        (errno.EAGAIN, end(), Reading(processes_peak=1, processes_at_most=LIMITS.processes - 1), None),
        (errno.EAGAIN, end(), Reading(refused_forks=1, processes_at_most=1), "processes"),
        (errno.EPERM, end(), METERED, None),
        (errno.ENOENT, end(), METERED, None),
        (0, end(), METERED, None),
        (99999, end(), METERED, None),
    ],
)
def test_the_error_number_of_a_limit_needs_evidence_from_outside(
    number: int, ended: Ended, reading: Reading, limit_name: str | None
) -> None:
    verdict = judged(ended, raised("OSError", errno=number), reading=reading)
    assert (verdict.status, verdict.limit_name) == (
        Status.LIMIT if limit_name else Status.EXCEPTION,
        limit_name,
    )
    assert verdict.evidence.get("limit") == (getattr(LIMITS, limit_name) if limit_name else None)


@pytest.mark.parametrize(
    ("message", "reading", "limit_name"),
    [
        ("can't start new thread", Reading(processes_peak=64, refused_forks=3), "processes"),
        ("can't start new thread", Reading(), "processes"),
        ("can't start new thread", METERED, None),
        ("something else", Reading(processes_peak=64, refused_forks=3), None),
    ],
)
def test_a_thread_that_could_not_start_is_the_limit_of_processes(
    message: str, reading: Reading, limit_name: str | None
) -> None:
    assert judged(end(), raised("RuntimeError", message=message), reading=reading).limit_name == limit_name


def test_a_survived_shortage_is_reported_and_changes_nothing() -> None:
    survived = Reading(cpu_s=0.1, memory_peak_bytes=1, processes_peak=64, out_of_memory_kills=2, refused_forks=5)
    verdict = judged(end(), VALUE, reading=survived)
    assert verdict.status is Status.OK
    assert verdict.evidence == {"out_of_memory_kills": 2, "refused_forks": 5}


# The end of a process without a reply


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_an_exit_without_a_reply_is_never_ok(code: int) -> None:
    verdict = judged(end(exit_code=code))
    assert (verdict.status, verdict.value, verdict.evidence) == (Status.EXITED, None, {"exit_code": code})


@pytest.mark.parametrize(
    ("number", "name"),
    [(9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM"), (31, "SIGSYS"), (64, "SIGRTMAX"), (100, "signal 100")],
)
def test_a_signal_is_a_crash_that_names_it(number: int, name: str) -> None:
    verdict = judged(died(number))
    assert (verdict.status, verdict.evidence) == (Status.CRASHED, {"signal": name})
    assert verdict.error is not None
    assert verdict.error.type == name


def test_a_forbidden_system_call_is_named() -> None:
    verdict = judged(died(signal.SIGSYS))
    assert verdict.error is not None
    assert "system call" in verdict.error.message


def test_a_lost_box_is_reported() -> None:
    verdict = judged(LOST, was_lost=True)
    assert (verdict.status, verdict.evidence) == (Status.CRASHED, {"box": "lost"})


def test_a_reply_cut_off_by_the_loss_of_the_box_is_no_reply() -> None:
    verdict = judged(LOST, packed(VALUE)[:-3], was_lost=True)
    assert (verdict.status, verdict.evidence) == (Status.CRASHED, {"box": "lost"})


# Contradictions between inside and outside


@pytest.mark.parametrize("reply", [VALUE, raised(), EXITED, TOO_LARGE], ids=lambda reply: reply["kind"])
def test_a_reply_does_not_hide_a_death_by_signal(reply: dict[str, Any]) -> None:
    verdict = judged(died(signal.SIGSEGV), reply)
    assert (verdict.status, verdict.value) == (Status.CRASHED, None)


@pytest.mark.parametrize(
    ("reply", "code"), [(VALUE, 1), (VALUE, 7), (raised(), 1), (TOO_LARGE, 2), (EXITED, 0), (EXITED, 3)]
)
def test_a_reply_does_not_hide_an_exit_that_contradicts_it(reply: dict[str, Any], code: int) -> None:
    verdict = judged(end(exit_code=code), reply)
    assert (verdict.status, verdict.value, verdict.evidence["exit_code"]) == (Status.EXITED, None, code)


@pytest.mark.parametrize(
    "reply",
    [
        b"\0\0\0\x02{}",
        b"\0\0\0\x01x",
        b"\xff\xff\xff\xff{}",
        b"\0\0\0\0{}",
        packed(VALUE)[:-1],
        packed({"kind": "value", "value": 1}),
        packed(VALUE | {"more": 1}),
        packed({"kind": "denied"}),
        packed({"kind": "exited", "code": "3"}),
        packed({"kind": "too_large", "bytes": -1}),
        packed({"kind": "exited", "code": 10**400}),
    ],
)
def test_an_invalid_reply_is_a_failure_of_the_tool(reply: bytes) -> None:
    verdict = judged(end(), reply)
    assert (verdict.status, verdict.value) == (Status.EXCEPTION, None)
    assert verdict.error is not None
    assert verdict.error.type == "UnreadableReply"
    assert len(verdict.error.message) <= 500


@pytest.mark.parametrize("reply", [b"", b"\0", b"\0\0\0\x01"])
def test_a_reply_shorter_than_its_header_is_no_reply(reply: bytes) -> None:
    assert judged(end(), reply).status is Status.EXITED


def test_bytes_after_a_reply_are_ignored() -> None:
    assert judged(end(), packed(VALUE) + packed(EXITED)).value == {"n": 1}


# Acts of the kernel


def test_an_out_of_memory_kill_is_the_memory_limit() -> None:
    reading = Reading(memory_peak_bytes=LIMITS.memory, processes_peak=1, out_of_memory_kills=1)
    verdict = judged(died(), reading=reading)
    assert (verdict.status, verdict.limit_name) == (Status.MEMORY, "memory")
    assert verdict.evidence == {
        "signal": "SIGKILL",
        "out_of_memory_kills": 1,
        "limit": LIMITS.memory,
        "measured": LIMITS.memory,
    }


def test_a_reply_does_not_hide_the_end_of_memory() -> None:
    assert judged(died(), VALUE, reading=Reading(out_of_memory_kills=1)).status is Status.MEMORY


@pytest.mark.parametrize(
    ("killed_by", "limit_name"), [("cpu", "cpu"), ("processes", "processes"), ("memory", "memory")]
)
def test_a_kill_by_the_watching_engine_is_believed(killed_by: str, limit_name: str) -> None:
    verdict = judged(died(killed_by=killed_by), VALUE, reading=Reading())
    assert (verdict.status, verdict.limit_name) == (
        Status.MEMORY if limit_name == "memory" else Status.LIMIT,
        limit_name,
    )


@pytest.mark.parametrize("number", [signal.SIGXCPU, signal.SIGKILL])
def test_a_kill_at_the_processor_limit_is_that_limit(number: int) -> None:
    verdict = judged(died(number), reading=Reading(cpu_s=LIMITS.cpu + 0.5))
    assert (verdict.status, verdict.limit_name) == (Status.LIMIT, "cpu")
    assert verdict.evidence["measured"] == LIMITS.cpu + 0.5


def test_a_tool_that_sends_itself_a_limit_signal_crashed() -> None:
    assert judged(died(signal.SIGXCPU), reading=Reading(cpu_s=0.2)).status is Status.CRASHED


def test_uncounted_processor_time_is_taken_from_the_end() -> None:
    assert judged(died(signal.SIGXCPU, cpu_s=LIMITS.cpu), reading=Reading()).limit_name == "cpu"


# Acts of the engine


@pytest.mark.parametrize(
    ("stop", "status", "limit_name"),
    [
        (KillReason.TIMEOUT, Status.TIMEOUT, "wall"),
        (KillReason.CANCELLED, Status.CANCELLED, None),
        (KillReason.OUTPUT, Status.LIMIT, "output"),
        (KillReason.CPU, Status.LIMIT, "cpu"),
    ],
)
def test_an_act_of_the_engine_wins_over_all_other_evidence(
    stop: KillReason, status: Status, limit_name: str | None
) -> None:
    everything = Reading(cpu_s=99, memory_peak_bytes=1, processes_peak=1, out_of_memory_kills=1, refused_forks=1)
    for verdict in (
        judged(KILLED, VALUE, reading=everything, kill_reason=stop),
        judged(KILLED, kill_reason=stop),
        judged(LOST, kill_reason=stop, was_lost=True),
    ):
        assert (verdict.status, verdict.limit_name, verdict.value) == (status, limit_name, None)


@pytest.mark.parametrize("stop", KillReason)
def test_a_call_that_ended_before_the_kill_ended_regularly(stop: KillReason) -> None:
    assert judged(end(), VALUE, kill_reason=stop).status is Status.OK
    assert judged(died(signal.SIGSEGV), kill_reason=stop).status is Status.CRASHED


def test_a_timeout_reports_the_real_duration() -> None:
    verdict = judged(KILLED, kill_reason=KillReason.TIMEOUT)
    assert verdict.evidence == {"signal": "SIGKILL", "limit": LIMITS.wall, "measured": 1.5, "where": "box"}


def test_a_value_that_overflowed_is_the_value_limit() -> None:
    verdict = judged(KILLED, b"x" * 100, value_overflowed=True)
    assert (verdict.status, verdict.limit_name, verdict.value) == (Status.LIMIT, "value", None)


def test_a_box_that_claims_an_unrequested_kill_gains_nothing() -> None:
    assert judged(KILLED).status is Status.CRASHED
    assert judged(end(killed_by="engine"), VALUE).status is Status.OK


# Everything

endings = st.builds(
    Ended,
    type=st.just("ended"),
    id=st.just(1),
    exit_code=st.none() | st.integers(-2, 256),
    signal=st.none() | st.integers(1, 64),
    cpu_s=st.none() | st.floats(0, 100),
    max_rss=st.none() | st.integers(0, 1 << 40),
    bytes_free=st.none() | st.integers(0, 1 << 40),
    inodes_free=st.none() | st.integers(0, 1 << 40),
    killed_by=st.none() | st.sampled_from(["engine", "memory", "cpu", "processes"]),
)
readings = st.builds(
    Reading,
    cpu_s=st.none() | st.floats(0, 100),
    memory_peak_bytes=st.none() | st.integers(0, 1 << 40),
    processes_peak=st.none() | st.integers(0, 100),
    out_of_memory_kills=st.integers(0, 3),
    refused_forks=st.integers(0, 3),
)
replies = st.binary(max_size=40) | st.sampled_from([VALUE, EXITED, TOO_LARGE, raised(), raised(errno=11)]).map(packed)


@pytest.mark.slow
@given(endings, replies, readings, st.none() | st.sampled_from(KillReason), st.booleans(), st.booleans())
def test_every_ending_has_a_verdict_and_only_a_clean_one_is_ok(
    ended: Ended, value: bytes, reading: Reading, stop: KillReason | None, was_lost: bool, overflowed: bool
) -> None:
    verdict = judge(CallEnd(ended, value, LIMITS, reading, 1.0, stop, was_lost, overflowed))
    assert (verdict.status is Status.OK) == (verdict.error is None)
    assert (verdict.limit_name is not None) == (verdict.status in (Status.LIMIT, Status.MEMORY, Status.TIMEOUT))
    if verdict.status is Status.OK:
        assert ended.signal is None
        assert ended.exit_code in (0, None)
        assert value == packed(VALUE)
    else:
        assert verdict.value is None


def test_the_status_in_a_value_is_the_status() -> None:
    verdict = judged(reply={**VALUE, "value": {"success": False, "error": "x" * 300}})
    assert (verdict.status, verdict.detail, verdict.error and verdict.error.type) == ("failed", "x" * 200, "Failed")
    assert verdict.value == {"success": False, "error": "x" * 300}
    assert judged(reply={**VALUE, "value": {"error": "Access denied"}}).status is Status.DENIED
    assert judged(reply={**VALUE, "ok": False}).status is Status.FAILED
    assert judged(reply={**VALUE, "value": {"error": "x"}, "ok": True}).status is Status.OK


def test_a_changed_state_comes_with_a_value_only() -> None:
    assert judged(reply={**VALUE, "state": {"n": 1}}).state == {"n": 1}
    assert judged(died(), reply={**VALUE, "state": {"n": 1}}).state is None


def test_a_complaint_about_arguments_is_invalid() -> None:
    verdict = judged(reply=INVALID)
    assert (verdict.status, [each.path for each in verdict.problems]) == (Status.INVALID, ["a[0]"])
    many = {**INVALID, "problems": [{"path": ["a" * 9999], "message": "x" * 99_999}] * 500}
    verdict = judged(reply=many)
    assert (len(verdict.problems), max(len(each.message) for each in verdict.problems)) == (100, 1000)
    assert len(verdict.error.message if verdict.error else "") <= 8192


def test_a_requested_permission_is_denied() -> None:
    verdict = judged(reply=DENIED)
    assert (verdict.status, verdict.detail) == (Status.DENIED, "May it?")
    assert judged(died(), reply=DENIED).status is Status.CRASHED


def test_warnings_of_an_exception_are_reported() -> None:
    assert judged(reply={**raised(), "warnings": ["hidden"]}).warnings == ("hidden",)
