"""The status that a returned value claims for its tool: success, failure, or a refusal.

A call has failed when its value says so: a `ToolResult` that is not ok, a mapping (or its JSON as text) with a
`success` that is false or, without any, with an `error`. Anything else is ok, whatever words are in it: a page about
"permission denied" is not a refusal.

A failure is a refusal (`denied`) if its code means that, or if its error *is* one: the phrase stands at the beginning
of the sentence or after its subject, not in a quotation or a remark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from sandbox.engine.replies import MAX_PARTS, count_parts
from sandbox.outcome import Status

DETAIL: Final = 200
_MAX_MESSAGE: Final = 8192
_MAX_JSON: Final = 1 << 20
_MAX_SENTENCE: Final = 400
_NO: Final = (False, 0, "false")
_CODES: Final = ("error_code", "code")
_TEXTS: Final = ("error", "message", "detail", "reason", "stderr")
_NO_REASON: Final = "the tool reports a failure without a reason"
_REFUSALS: Final = frozenset(
    {"401", "403", "access_denied", "permission_denied", "denied", "forbidden"}
    | {"unauthorized", "unauthorised", "not_authorized", "not_authorised"}
    | {"insufficient_privileges", "insufficient_permissions"}
)
_KIND: Final = r"(?:[\w.]*(?:error|exception)\s*:\s*|error\b[\s:-]*|\[errno\s\d+\]\s*|http\s+|40[13]\b[\s:,-]*)*"
_SUBJECT: Final = r"(?:[\w'@./-]+\s+){0,6}"
_IS_REFUSED: Final = re.compile(
    rf"""{_KIND}(?:
        (?:access|permission)[\s_-]*(?:(?:is|was|has\s+been)\s+)?denied\b
      | (?:the\s+)?(?:request\s+(?:is|was)\s+|access\s+)?unauthori[sz]ed\b
      | {_SUBJECT}not\s+authori[sz]ed\b
      | {_SUBJECT}does\s+not\s+have\s+the\s+.{{1,100}}?\bprivileges?\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ToolStatus:
    """The status that a value claims, with the tool's reason."""

    status: Status
    message: str = ""

    @property
    def detail(self) -> str | None:
        """The beginning of the reason."""
        return self.message[:DETAIL] if self.status is not Status.OK else None


_OK: Final = ToolStatus(Status.OK)


def classify(value: JsonValue, *, ok: bool | None) -> ToolStatus:
    """Return the status that a value claims. `ok` is the flag of a `ToolResult`."""
    if ok is not None:
        return _OK if ok else ToolStatus(Status.FAILED, _result_text(value))
    document = _document(value)
    if document is None or not _is_failure(document):
        return _OK
    message = _error_text(document)
    is_refusal = _has_refusal_code(document) or is_refusal_text(message)
    return ToolStatus(Status.DENIED if is_refusal else Status.FAILED, message)


def is_refusal_text(text: str) -> bool:
    """Return whether the text is a refusal, and not about one."""
    return _IS_REFUSED.match(text[:_MAX_SENTENCE].lstrip()) is not None


def _document(value: JsonValue) -> Mapping[str, Any] | None:
    """Return the mapping that a value is, or whose JSON text it is."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not _may_be_document(value):
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _may_be_document(text: str) -> bool:
    if len(text) > _MAX_JSON or not text.lstrip().startswith("{"):
        return False
    if '"success"' not in text and '"error"' not in text:
        return False
    return len(text) <= MAX_PARTS or count_parts(text.encode("utf-8", "replace")) <= MAX_PARTS


def _is_failure(document: Mapping[str, Any]) -> bool:
    if "success" in document:
        success = document["success"]
        return (success.lower() if isinstance(success, str) else success) in _NO
    return bool(document.get("error"))


def _has_refusal_code(document: Mapping[str, Any]) -> bool:
    error = document.get("error")
    places = [document, error] if isinstance(error, Mapping) else [document]
    return any(_is_refusal_code(place.get(name)) for place in places for name in _CODES)


def _is_refusal_code(code: object) -> bool:
    return isinstance(code, str | int) and str(code).strip().lower().replace("-", "_").replace(" ", "_") in _REFUSALS


def _error_text(document: Mapping[str, Any]) -> str:
    """Return the error, or the field that stands in for it."""
    error = document.get("error")
    inner = _first_text(error, _TEXTS) if isinstance(error, Mapping) else ""
    found = inner or (_brief(error) if error and not isinstance(error, str) else _first_text(document, _TEXTS))
    return found or _NO_REASON


def _result_text(value: JsonValue) -> str:
    return _first_text(value if isinstance(value, Mapping) else {}, ("stderr", "stdout")) or _NO_REASON


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    texts = (document.get(name) for name in names)
    return next((text.strip()[:_MAX_MESSAGE] for text in texts if isinstance(text, str) and text.strip()), "")


def _brief(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:_MAX_MESSAGE]
