"""A call that returned has failed if its value reports failure, and was denied if its value reports a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.classification import classify, is_refusal_text
from sandbox.outcome import Status


def status(value: Any, *, ok: bool | None = None) -> str:
    return classify(value, ok=ok).status.value


@pytest.mark.parametrize("value", [True, 1, 0, False, None, "", "no", [], {}, {"success": True}, {"success": "no"}])
def test_a_value_without_a_report_of_failure_is_ok(value: Any) -> None:
    assert status(value) == "ok"


@pytest.mark.parametrize("success", [False, 0, "false", "False"])
def test_success_false_is_a_failure(success: Any) -> None:
    said = classify({"success": success, "error": "no such city"}, ok=None)
    assert (said.status, said.message, said.detail) == (Status.FAILED, "no such city", "no such city")


def test_a_mapping_as_json_text_counts_as_well() -> None:
    assert status(json.dumps({"success": False, "error": "access denied"})) == "denied"
    assert status(' {"error": "no"} ') == "failed"
    assert status('{"error": "no"') == "ok"
    assert status('{"error":' + "[" * 100_000) == "ok"
    assert status('["error"]') == "ok"


def test_an_error_counts_without_a_success_field() -> None:
    assert status({"error": "no"}) == "failed"
    assert status({"error": ""}) == status({"error": None}) == status({"error": {}}) == "ok"
    assert status({"error": "no", "success": True}) == "ok"
    assert classify({"error": {"message": "gone", "code": 404}}, ok=None).message == "gone"
    assert classify({"error": {"x": 1}}, ok=None).message == '{"x": 1}'
    assert classify({"error": ["a"]}, ok=None).message == '["a"]'


@pytest.mark.parametrize("code", [401, 403, "403", "permission_denied", "PERMISSION-DENIED", "Forbidden"])
@pytest.mark.parametrize("name", ["code", "error_code"])
def test_a_code_that_means_a_refusal_is_a_refusal(name: str, code: Any) -> None:
    assert status({"success": False, name: code, "error": "because"}) == "denied"
    assert status({"error": {name: code, "message": "because"}}) == "denied"
    assert status({"success": True, name: code}) == "ok"


def test_other_codes_are_failures() -> None:
    assert status({"success": False, "code": 404}) == "failed"
    assert status({"success": False, "code": True}) == "failed"
    assert status({"success": False, "code": ["403"]}) == "failed"


@pytest.mark.parametrize(
    "text",
    [
        "User bob does not have the admin privilege",
        "The caller does not have the files.write and the files.read privileges for this.",
        "Access denied",
        "access is denied for user bob",
        "AccessDenied: no",
        "Permission denied: '/etc/shadow'",
        "PermissionError: [Errno 13] Permission denied: '/x'",
        "Error: permission denied",
        "You are not authorized to do this",
        "not authorised",
        "Unauthorized",
        "401 Unauthorized",
        "HTTP 403: Access denied",
        "  unauthorised\n",
    ],
)
def test_a_refusal_is_denied(text: str) -> None:
    assert is_refusal_text(text)
    assert status({"success": False, "error": text}) == "denied"
    assert status({"success": False, "message": text}) == "denied"
    assert status({"success": True, "error": text}) == "ok"
    assert status({"text": text}) == status(text) == status([{"error": text}]) == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "could not parse the log line 'permission denied'",
        "no article about access denied was found",
        "the answer was: access denied",
        "cannot tell whether or not that user, bob, is one who is not authorized",
        "disk full",
        "",
    ],
)
def test_text_about_a_refusal_is_no_refusal(text: str) -> None:
    assert not is_refusal_text(text)
    assert status({"success": False, "error": text}) == "failed"


def test_a_result_reports_its_own_status() -> None:
    assert status({"ok": True, "stderr": "access denied"}, ok=True) == "ok"
    said = classify({"ok": False, "stdout": "out", "stderr": "", "meta": {"success": True}}, ok=False)
    assert (said.status, said.message) == (Status.FAILED, "out")
    assert classify({"stderr": "bad", "stdout": "out"}, ok=False).message == "bad"
    assert classify([1], ok=False).message == "the tool reports a failure without a reason"


def test_the_detail_is_the_beginning_of_the_text() -> None:
    said = classify({"error": "x" * 100_000}, ok=None)
    assert (said.detail, len(said.message)) == ("x" * 200, 8192)
    assert classify({"success": True}, ok=None).detail is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["success", "error", "code"]), inner),
    max_leaves=10,
)


@given(JSON, st.none() | st.booleans())
def test_any_value_is_classified(value: Any, ok: bool | None) -> None:
    said = classify(value, ok=ok)
    assert said.status in (Status.OK, Status.FAILED, Status.DENIED)
    assert (said.detail is None) == (said.status is Status.OK)
    assert ok is None or (said.status is Status.OK) == ok
