"""The outcome document is closed, frozen, cheap, and writable for every value and every output."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sandbox.errors import CallFailed
from sandbox.outcome import (
    EnforcedBy,
    EnvironmentUsed,
    Failure,
    Isolation,
    Json,
    LayerState,
    LimitState,
    MeasuredBy,
    Outcome,
    PolicyUsed,
    Problem,
    Receipt,
    Shaped,
    Status,
    Timing,
    ToolName,
    Usage,
    portable,
    printable,
)
from tests.processor_time import within

NOTHING = Shaped(text="", type="execution_result", characters=0, shown=0)
USAGE = Usage(wall_s=0.25)
TOOL = ToolName(name="weather")
TIMING = Timing(queue_ms=0.1, environment_ms=0.2, box_ms=0.3, run_ms=1, total_ms=2, path="warm", ahead=True)
RECEIPT = Receipt(
    backend="subprocess",
    isolation=Isolation.PROCESS,
    layers={"seccomp": LayerState(in_force=True, detail="2 filters", measured_by=MeasuredBy.READ_OUTSIDE)},
    network="none",
    user="65534:65534",
    limits={"memory": LimitState(value=512, enforced_by=EnforcedBy.CGROUP, note="memory.max")},
    environment_digest="sha256:00",
    policy=PolicyUsed(name="default", digest="sha256:01"),
)
ENVIRONMENT = EnvironmentUsed(key="k", lock_digest="sha256:02")

HOSTILE_TEXT = st.text(alphabet=st.sampled_from('a\n\x00\x1b"\\é漢😀\ud800\udbff\udc00\udfff'), max_size=8)
HOSTILE_JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HOSTILE_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE_TEXT, inner, max_size=4),
    max_leaves=12,
)


def outcome(**changes: object) -> Outcome:
    plain = {
        "status": Status.OK,
        "stdout": NOTHING,
        "stderr": NOTHING,
        "shaped_value": NOTHING,
        "usage": USAGE,
        "tool": TOOL,
        "timing": TIMING,
        "call_id": "c1",
    }
    return Outcome.model_validate(plain | changes)


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


def strict_json(text: str) -> object:
    """Parse strictly: JSON in UTF-8, and nothing else."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text.encode("utf-8"), parse_constant=refuse)


def test_the_document_has_the_keys_that_clients_rely_on() -> None:
    document = json.loads(outcome(receipt=RECEIPT, environment=ENVIRONMENT).to_json())
    assert list(document) == [
        *("status", "value", "error", "stdout", "stderr", "shaped_value", "usage", "limit_name", "evidence"),
        *(
            "retryable",
            "warnings",
            "problems",
            "detail",
            "state",
            "artifacts",
            "refused",
            "receipt",
            "environment",
            "tool",
            "timing",
        ),
        *("call_id", "trace_id"),
    ]
    assert list(document["stdout"]) == ["text", "type", "characters", "shown", "truncated", "reason", "artifact"]
    assert list(document["usage"]) == [
        "wall_s",
        "cpu_s",
        "memory_peak_bytes",
        "processes_peak",
        "preload_cpu_s",
        "preload_memory_bytes",
    ]


def test_a_receipt_writes_its_enums_as_plain_words() -> None:
    document = json.loads(outcome(receipt=RECEIPT).to_json())["receipt"]
    layer = {"in_force": True, "detail": "2 filters", "measured_by": "read_outside"}
    assert document["layers"] == {"seccomp": layer}
    assert document["limits"] == {"memory": {"value": 512, "enforced_by": "cgroup", "note": "memory.max"}}


@pytest.mark.parametrize("in_force", [True, False])
@pytest.mark.parametrize("measured_by", MeasuredBy)
def test_a_layer_counts_if_it_is_in_force_and_measured(measured_by: MeasuredBy, in_force: bool) -> None:
    state = LayerState(in_force=in_force, detail="", measured_by=measured_by)
    assert state.counts == (in_force and measured_by is not MeasuredBy.NONE)


def test_unmeasured_usage_is_null() -> None:
    usage = json.loads(outcome().to_json())["usage"]
    assert usage == {"wall_s": 0.25} | dict.fromkeys([name for name in usage if name != "wall_s"])


def test_an_outcome_comes_back_from_its_document_unchanged() -> None:
    before = outcome(
        status="limit",
        value={"a": [1, 2.5, None, "x"]},
        error=Failure(type="LimitReached", message="too many processes"),
        limit_name="processes",
        evidence={"pids_peak": 64},
        problems=[Problem(path="city", message="missing", expected="string")],
        receipt=RECEIPT,
        environment=ENVIRONMENT,
    )
    assert Outcome.from_json(before.to_json()) == before
    assert Outcome.model_validate_json(before.to_json()) == before


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="surprise"):
        outcome(surprise=1)


def test_an_outcome_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        outcome().status = Status.FAILED  # type: ignore[misc]


@pytest.mark.parametrize("wall_s", [float("nan"), float("inf")])
def test_a_measured_number_is_finite(wall_s: float) -> None:
    with pytest.raises(ValidationError):
        Usage(wall_s=wall_s)


def test_a_path_through_the_engine_is_one_of_three() -> None:
    assert get_args(Timing.model_fields["path"].annotation) == ("cold", "pooled", "warm")


@pytest.mark.parametrize(
    ("exit_code", "statuses"),
    [
        (0, "ok"),
        (1, "failed denied exception exited crashed"),
        (2, "invalid"),
        (3, "timeout memory limit"),
        (130, "cancelled"),
    ],
)
def test_the_exit_code_follows_the_status(exit_code: int, statuses: str) -> None:
    assert {outcome(status=status).exit_code for status in statuses.split()} == {exit_code}


def test_every_status_has_an_exit_code_and_only_ok_is_zero() -> None:
    assert [status for status in Status if outcome(status=status).exit_code == 0] == [Status.OK]


def test_raise_for_status_returns_an_ok_outcome() -> None:
    good = outcome(value=3)
    assert good.ok
    assert good.raise_for_status() is good


def test_raise_for_status_raises_one_line_with_the_outcome() -> None:
    bad = outcome(status="exception", error=Failure(type="ValueError", message="no such\ncity", traceback="…"))
    with pytest.raises(CallFailed) as caught:
        bad.raise_for_status()
    assert str(caught.value) == "Error executing function weather: ValueError: no such city"
    assert caught.value.outcome is bad


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_every_status_but_ok_raises_also_without_an_error(status: Status) -> None:
    with pytest.raises(CallFailed, match=f"weather: {status.value}"):
        outcome(status=status).raise_for_status()


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
@pytest.mark.parametrize("retryable", [False, True])
def test_a_raised_outcome_has_its_exit_code_and_its_retryability(status: Status, retryable: bool) -> None:
    bad = outcome(status=status, retryable=retryable)
    with pytest.raises(CallFailed) as caught:
        bad.raise_for_status()
    assert (caught.value.exit_code, caught.value.retryable) == (bad.exit_code, retryable)


def test_the_line_names_the_limit_when_there_is_no_error() -> None:
    with pytest.raises(CallFailed, match=r"weather: limit: output$"):
        outcome(status="limit", limit_name="output").raise_for_status()


def test_the_line_stays_short_and_clean_whatever_the_tool_raised() -> None:
    hostile = Failure(type="E" * 10**6, message="\x1b[31mred\x07" * 10**5)
    with pytest.raises(CallFailed) as long:
        outcome(status="exception", error=hostile).raise_for_status()
    with pytest.raises(CallFailed) as coloured:
        outcome(status="exception", error=Failure(type="E", message="\x1b[31mred\ud800")).raise_for_status()
    assert len(str(long.value)) == 300
    assert str(long.value).endswith("…")
    assert str(coloured.value) == "Error executing function weather: E: [31mred\ufffd"


@given(value=HOSTILE_JSON, said=HOSTILE_TEXT)
def test_any_value_and_any_text_can_be_written_and_read_back(value: Json, said: str) -> None:
    hostile = outcome(
        status="exception",
        value=value,
        error=Failure(type=said, message=said, traceback=said),
        stdout=Shaped(text=said, type="execution_result", characters=len(said), shown=len(said)),
        evidence={"got": value},
        warnings=(said,),
        problems=(Problem(path=said, message=said, got=value),),
        trace_id=said,
    )
    written = hostile.to_json()
    strict_json(written)
    strict_json(json.dumps(hostile.model_dump(mode="json")))
    assert Outcome.from_json(written).to_json() == written


@given(HOSTILE_JSON)
def test_python_callers_get_the_value_unchanged(value: Json) -> None:
    assert outcome(value=value).value is value


@pytest.mark.parametrize("levels", [150, 200, 202, 230, 255, 900])
def test_any_nesting_can_be_written_and_read_back(levels: int) -> None:
    written = outcome(value=nested(levels), evidence={"deep": nested(levels)}).to_json()
    assert Outcome.from_json(written).to_json() == written
    assert ("nested deeper than 200 levels" in written) == (levels > 200)


def test_whole_numbers_of_any_size_are_written_exactly() -> None:
    assert json.loads(outcome(value=2**200).to_json())["value"] == 2**200


def test_lone_surrogates_and_nan_are_replaced_in_the_document_only() -> None:
    value: Json = {"\ud800k": ["\udfff", float("nan"), "NaN", "fine", 1, True], "deep": {"x": float("-inf")}}
    assert portable(value) == {"\ufffdk": ["\ufffd", None, "NaN", "fine", 1, True], "deep": {"x": None}}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_becomes_null(number: float) -> None:
    assert portable([number, "NaN and Infinity"]) == [None, "NaN and Infinity"]


def test_a_value_that_every_reader_accepts_is_not_copied() -> None:
    value: Json = {"a": [1, "é", None, 2.5]}
    assert portable(value) is value


def test_printable_text_is_kept_and_lone_surrogates_are_replaced() -> None:
    assert printable("héllo \x1b[0m 😀") == "héllo \x1b[0m 😀"
    assert printable("a\ud83d\ude00b") == "a\ufffd\ufffdb"


def test_control_characters_stay_in_the_text() -> None:
    red = Shaped(text="\x1b[31mred\x00", type="execution_result", characters=9, shown=9)
    assert json.loads(outcome(stdout=red).to_json())["stdout"]["text"] == "\x1b[31mred\x00"


def test_the_schema_of_the_document_can_be_published() -> None:
    schema = Outcome.model_json_schema(mode="serialization")
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Status"]["enum"] == [status.value for status in Status]


def test_an_outcome_costs_less_than_30_microseconds() -> None:
    def build() -> Outcome:
        return Outcome(
            status=Status.OK,
            value={"a": 1},
            stdout=Shaped(text="x", type="execution_result", characters=1, shown=1),
            stderr=NOTHING,
            shaped_value=Shaped(text="x", type="json_data", characters=1, shown=1),
            usage=Usage(wall_s=0.1, cpu_s=0.1, memory_peak_bytes=1, processes_peak=1),
            receipt=RECEIPT,
            environment=ENVIRONMENT,
            tool=TOOL,
            timing=Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=1, total_ms=1, path="warm"),
            call_id="c1",
        )

    build()
    with within(1000 * 30e-6):
        for _ in range(1000):
            build()
