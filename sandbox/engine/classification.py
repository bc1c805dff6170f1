"""What a tool that returned says of itself: that it did what it was asked, that it did not, or that it may not.

A call has failed when its value says so: a `ToolResult` that is not ok, a mapping (or its JSON as text) with a
`success` that is false or, without any, with an `error`. Anything else is ok, whatever words are in it: a page about
"permission denied" is not a refusal.

A failure is a refusal (`denied`) when its code is one of those that mean it, or when its error *is* one: the phrase is
what the sentence says, at its beginning or after its subject, and not something it quotes or talks about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from sandbox.engine.replies import MOST_PARTS, count_parts
from sandbox.outcome import Status

DETAIL: Final = 200
_LONGEST_MESSAGE: Final = 8192
_LONGEST_JSON: Final = 1 << 20
_LONGEST_SENTENCE: Final = 400
_NO: Final = (False, 0, "false")
_CODES: Final = ("error_code", "code")
_TEXTS: Final = ("error", "message", "detail", "reason", "stderr")
_UNSAID: Final = "the tool says that it failed, and not why"
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
    """How a call that returned went, by its own word."""

    status: Status
    message: str = ""

    @property
    def detail(self) -> str | None:
        """The beginning of what went wrong."""
        return self.message[:DETAIL] if self.status is not Status.OK else None


_OK: Final = ToolStatus(Status.OK)


def classify(value: JsonValue, *, ok: bool | None) -> ToolStatus:
    """The word of a value on itself; `ok` is that of a `ToolResult`."""
    if ok is not None:
        return _OK if ok else ToolStatus(Status.FAILED, _result_text(value))
    document = _document(value)
    if document is None or not _is_failure(document):
        return _OK
    message = _error_text(document)
    is_refusal = _has_refusal_code(document) or is_refusal_text(message)
    return ToolStatus(Status.DENIED if is_refusal else Status.FAILED, message)


def is_refusal_text(text: str) -> bool:
    """Whether the text is a refusal, and not about one."""
    return _IS_REFUSED.match(text[:_LONGEST_SENTENCE].lstrip()) is not None


def _document(value: JsonValue) -> Mapping[str, Any] | None:
    """The mapping that a value is, or is the text of."""
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
    if len(text) > _LONGEST_JSON or not text.lstrip().startswith("{"):
        return False
    if '"success"' not in text and '"error"' not in text:
        return False
    return len(text) <= MOST_PARTS or count_parts(text.encode("utf-8", "replace")) <= MOST_PARTS


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
    """What it says is wrong: the error, or what says it in its place."""
    error = document.get("error")
    inner = _first_text(error, _TEXTS) if isinstance(error, Mapping) else ""
    found = inner or (_shortly(error) if error and not isinstance(error, str) else _first_text(document, _TEXTS))
    return found or _UNSAID


def _result_text(value: JsonValue) -> str:
    return _first_text(value if isinstance(value, Mapping) else {}, ("stderr", "stdout")) or _UNSAID


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    texts = (document.get(name) for name in names)
    return next((text.strip()[:_LONGEST_MESSAGE] for text in texts if isinstance(text, str) and text.strip()), "")


def _shortly(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:_LONGEST_MESSAGE]
