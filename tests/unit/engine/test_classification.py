"""A call that returned has failed if its value reports failure, and was denied if its value reports a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.classification import ToolStatus, classify
from sandbox.outcome import Status
from tests.unit.engine.returned_values import ARTICLE, DENIED, FAILED, MENTIONS, OK, REFUSALS, Result

STATUSES = {"ok": OK + MENTIONS, "failed": FAILED, "denied": DENIED + REFUSALS}


def classified(value: Any) -> ToolStatus:
    is_result = isinstance(value, Result)
    return classify(value.parts() if is_result else value, ok=False if is_result else None)


@pytest.mark.parametrize(("expected", "value"), [(name, value) for name, each in STATUSES.items() for value in each])
def test_a_value_has_the_status_that_it_claims(expected: str, value: Any) -> None:
    assert classified(value).status.value == expected


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_denied_in_every_form(text: str) -> None:
    named: list[Any] = [{"success": flag, name: text} for flag in (False, None) for name in ("error", "message")]
    for value in (*named, {"error": text}, {"message": text}, Result(text), Result(stdout=text)):
        assert classified(value) == ToolStatus(Status.DENIED, text.strip())
    others: list[Any] = [{"success": True, "error": text}, {"text": text}, [{"error": text}], f"{ARTICLE}\n{text}"]
    for value in others:
        assert classified(value).status is Status.OK
    assert classify({"ok": True, "stdout": text, "stderr": text, "meta": {}}, ok=True).status is Status.OK


@pytest.mark.parametrize("text", MENTIONS)
def test_a_failure_that_mentions_a_refusal_is_no_refusal(text: str) -> None:
    assert classified({"success": False, "error": text}).status is Status.FAILED
    assert classified(Result(text)).status is Status.FAILED
    assert classified({"error": text}).status is classified({"message": text}).status is Status.OK


@pytest.mark.parametrize("code", [401, 403, "403", "permission_denied", "PERMISSION-DENIED", "Forbidden", "EACCES"])
@pytest.mark.parametrize("name", ["code", "error_code"])
def test_a_code_that_means_a_refusal_is_a_refusal(name: str, code: Any) -> None:
    for value in ({"success": False, name: code}, {"error": {name: code, "message": "because"}}):
        assert classified(value).status is Status.DENIED
    assert classified({"success": True, name: code}).status is Status.OK


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"success": False, "error": {"message": "gone", "code": 404}}, "gone"),
        ({"success": False, "error": {"x": 1}}, '{"x": 1}'),
        ({"success": False, "error": ["a"]}, '["a"]'),
        ({"success": False, "error": True, "message": "gone"}, "gone"),
        ({"success": False, "detail": "gone"}, "gone"),
        ({"success": False, "error": "E17", "message": "Access denied"}, "E17"),
        ({"error": True, "message": "Access denied"}, "Access denied"),
        ({"success": False}, "the tool reports a failure without a reason"),
        (Result("bad", "out"), "bad"),
        (Result("", "out"), "out"),
        (Result('{"error": "bad", "code": 403}'), "bad"),
        (Result(), "the tool reports a failure without a reason"),
    ],
)
def test_the_message_is_the_error_or_what_stands_in_for_it(value: Any, message: str) -> None:
    assert classified(value).message == message


def test_the_detail_is_the_beginning_of_the_text() -> None:
    said = classified({"success": False, "error": "x" * 100_000})
    assert (said.detail, len(said.message)) == ("x" * 200, 8192)
    assert classified({"success": True}).detail is None


def test_a_result_that_is_no_mapping_has_failed() -> None:
    assert classify([1], ok=False).status is Status.FAILED


NAMES = st.sampled_from(["success", "error", "message", "code", "error_code", "stderr", "meta"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(REFUSALS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | NAMES, inner),
    max_leaves=10,
)


@given(JSON, st.none() | st.booleans())
def test_any_value_is_classified(value: Any, ok: bool | None) -> None:
    said = classify(value, ok=ok)
    assert said.status in (Status.OK, Status.FAILED, Status.DENIED)
    assert (said.detail is None) == (said.status is Status.OK)
    assert ok is None or (said.status is Status.OK) == ok
    if isinstance(value, dict) and ok is None:
        assert (said.status is Status.FAILED) <= (value.get("success") is False)
