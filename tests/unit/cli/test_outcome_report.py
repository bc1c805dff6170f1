"""The report of an outcome leaves nothing out and repeats nothing, for every content."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cli.outcome_report import details, headline, report_outcome, summary, value_json
from sandbox.outcome import (
    EnvironmentUsed,
    Failure,
    Isolation,
    Outcome,
    PolicyUsed,
    Problem,
    Receipt,
    Shaped,
    Status,
    Timing,
    ToolName,
    Usage,
)

NOTHING = Shaped(text="", type="execution_result", characters=0, shown=0)


def outcome(status: Status, **fields: Any) -> Outcome:
    return Outcome(
        **{
            "status": status,
            "stdout": NOTHING,
            "stderr": NOTHING,
            "shaped_value": NOTHING,
            "usage": Usage(wall_s=0.012, memory_peak_bytes=4404019),
            "environment": EnvironmentUsed(key="k", lock_digest="d"),
            "tool": ToolName(name="tool"),
            "timing": Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=0, total_ms=0, path="warm"),
            "call_id": "1",
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("status", "failure", "shown"),
    [
        (Status.EXCEPTION, Failure(type="ValueError", message="no"), "exception: ValueError: no"),
        (Status.EXCEPTION, Failure(type="ValueError", message=""), "exception: ValueError"),
        (Status.EXCEPTION, Failure(type="E", message="a\nb\x1b"), "exception: E: a\n  b\\u001b"),
        (Status.TIMEOUT, Failure(type="Timeout", message="killed after 1 s"), "timeout: killed after 1 s"),
        (Status.CRASHED, Failure(type="SIGSEGV", message="ended by SIGSEGV"), "crashed: ended by SIGSEGV"),
        (Status.FAILED, None, "failed"),
    ],
)
def test_the_headline_names_the_status(status: Status, failure: Failure | None, shown: str) -> None:
    assert headline(outcome(status, error=failure)) == shown


def test_the_headline_of_a_limit_names_it() -> None:
    told = outcome(Status.LIMIT, limit_name="disk", error=Failure(type="OSError", message="full"))
    assert headline(told) == "limit disk: OSError: full"


def test_a_limit_comes_with_figures_and_the_rest_of_the_evidence() -> None:
    evidence: dict[str, Any] = {"limit": 67108864, "measured": 71303168, "out_of_memory_kills": 1, "signal": "SIGKILL"}
    told = outcome(Status.MEMORY, limit_name="memory", evidence=evidence)
    assert details(told) == ["limit memory: 64 MiB, measured 68 MiB", "seen: out of memory kills 1, signal SIGKILL"]


def test_a_limit_with_a_unit_is_shown_in_that_unit() -> None:
    evidence: dict[str, Any] = {"limit": 250000, "measured": 300004, "unit": "parts"}
    told = outcome(Status.LIMIT, limit_name="value", evidence=evidence)
    assert details(told) == ["limit value: 250000 parts, measured 300004 parts"]


def test_evidence_without_a_limit_is_shown_unchanged() -> None:
    assert details(outcome(Status.EXITED, evidence={"exit_code": 3, "limit": 1})) == ["seen: exit code 3, limit 1"]


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (
            Problem(path="a", message="must be an integer", expected="an integer", got='"x"'),
            'a: must be an integer; got "x"',
        ),
        (Problem(path="a", message="is missing", expected="text", got="nothing"), "a: is missing; expected text"),
        (Problem(path="", message="too large"), "too large"),
        (Problem(path="\x1b", message="\u202e"), "\\u001b: \\u202e"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, shown: str) -> None:
    assert details(outcome(Status.INVALID, problems=(problem,))) == [shown]


def test_the_summary_leaves_out_unmeasured_figures() -> None:
    assert summary(outcome(Status.OK)) == "ok · 12 ms · 4.2 MiB · warm"
    assert summary(outcome(Status.OK, usage=Usage(wall_s=2))) == "ok · 2.00 s · warm"
    assert summary(outcome(Status.INVALID, environment=None, usage=Usage(wall_s=0))) == "invalid · nothing ran"


def test_a_value_that_fits_is_on_one_line() -> None:
    assert value_json([1, 2, {"é": None}]) == '[1, 2, {"é": null}]'
    assert value_json(list(range(40))).count("\n") == 41


def test_a_value_of_any_depth_can_be_shown() -> None:
    value: Any = float("nan")
    for _ in range(5_000):
        value = [value]
    assert "nested deeper" in value_json(value)


def test_a_warning_of_the_box_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    receipt = Receipt(
        backend="container",
        isolation=Isolation.CONTAINER,
        layers={},
        network="none",
        user="1",
        limits={},
        runtime="runsc",
        environment_digest="e",
        policy=PolicyUsed(name="p", digest="d"),
        notes=("memory is not limited", "plain"),
    )
    report_outcome(outcome(Status.OK, warnings=("old", "memory is not limited"), receipt=receipt))
    told = capfd.readouterr().err
    assert [told.count(f"warning: {each}") for each in ("old", "memory is not limited", "plain")] == [1, 1, 1]
