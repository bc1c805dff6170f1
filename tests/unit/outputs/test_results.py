"""Each text of a `ToolResult` has the budget of its own type, and the whole stays JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Json
from sandbox.outputs.budgets import Budgets, DeclaredOutputs, RequestedOutputs
from sandbox.outputs.history import for_history
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.results import is_result, shape_result
from sandbox.policy import Output

OF_EXECUTE = DeclaredOutputs(value="status_message", stdout="status_message")
LOG = "".join(f"line {number}\n" for number in range(5_000))


def result(stdout: str = "", stderr: str = "", **meta: Any) -> dict[str, Any]:
    return {"ok": True, "stdout": stdout, "stderr": stderr, "meta": meta}


def test_a_short_result_is_the_json_of_its_value() -> None:
    shaped = shape_result(result("done", "", count=1), Budgets(OF_EXECUTE, Output()))
    assert shaped.text == json.dumps(result("done", "", count=1))
    assert (shaped.type, shaped.truncated, shaped.reason) == ("json_data", False, None)
    assert shaped.shown == shaped.characters == len(shaped.text)


def test_each_text_is_shaped_like_the_stream_of_its_name() -> None:
    shaped = shape_result(result(LOG, LOG, rows=list(range(9_000))), Budgets(OF_EXECUTE, Output()), artifact="a1")
    fitted = json.loads(shaped.text)
    assert fitted["stdout"].startswith("line 0\n")
    assert len(strip_notices(fitted["stdout"])) <= 2_000
    assert 7_000 < len(strip_notices(fitted["stderr"])) <= 8_000
    assert fitted["stderr"].endswith("line 4999\n")
    assert fitted["stderr"].index("[…") < 2_500  # a quarter from its beginning, the rest from its end
    assert "artifact a1" in fitted["stdout"]
    assert len(json.dumps(fitted["meta"])) <= 8_300
    assert (shaped.truncated, shaped.artifact) == (True, "a1")
    assert shaped.characters == len(json.dumps(result(LOG, LOG, rows=list(range(9_000)))))


def test_a_budget_of_the_value_holds_for_the_whole_result() -> None:
    for budgets in (
        Budgets(DeclaredOutputs(return_char_limit=600), Output()),
        Budgets(DeclaredOutputs(), Output(), RequestedOutputs(return_char_limit=600)),
    ):
        shaped = shape_result(result(LOG, LOG), budgets)
        assert shaped.shown <= 600
        assert json.loads(shaped.text)["ok"] is True


def test_a_result_may_be_limited_in_tokens() -> None:
    budgets = Budgets(DeclaredOutputs(), Output(tokens=(("execution_result", 50),)), tokenizer=str.split)
    fitted = json.loads(shape_result(result(LOG), budgets).text)
    assert 40 <= len(strip_notices(fitted["stdout"]).split()) <= 50


def test_a_result_has_a_form_for_the_history() -> None:
    shaped = shape_result(result(LOG, LOG, rows=list(range(9_000))), Budgets(DeclaredOutputs(), Output()))
    remembered = for_history(shaped)
    assert json.loads(remembered.text)["ok"] is True
    assert remembered.shown <= 12_000


def test_a_value_that_resembles_a_result_is_no_result() -> None:
    assert is_result(result())
    others: list[Json] = [None, [], {"ok": True}, {**result(), "more": 1}, {**result(), "stdout": 5}]
    for value in others:
        assert not is_result(value)


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 50))
def test_a_result_of_any_texts_is_json_within_the_budgets_of_its_parts(stdout: str, stderr: str, room: int) -> None:
    policy = Output(budgets=(("error_message", room), ("execution_result", room), ("json_data", room)))
    shaped = shape_result(result(stdout, stderr, key=stdout), Budgets(DeclaredOutputs(), policy))
    fitted = json.loads(shaped.text)
    assert len(strip_notices(fitted["stdout"])) <= room
    assert len(strip_notices(fitted["stderr"])) <= room
    if not shaped.reason:
        assert fitted == result(stdout, stderr, key=stdout)
