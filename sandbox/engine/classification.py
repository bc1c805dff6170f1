"""The status that a returned value claims for its tool: success, failure, or a refusal.

- A call has failed if its value says so: a `ToolResult` that is not ok, or a mapping whose `success` is false. An
  `error` alone is data. Text that is JSON counts as what it stands for.
- A failure is `denied` if its error or message is a refusal, or its code means one.
- A mapping without `success` is `denied` for the same reasons, and so is a value that is nothing but a short refusal.
- Anything else is ok, whatever words are in it: a page about "permission denied" is no refusal.
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
MAX_REFUSAL: Final = 500
"""The most characters of a text that is a refusal by itself. Only the beginning of a failure's text is searched."""
_MAX_MESSAGE: Final = 8192
_MAX_JSON: Final = 1 << 20
_REPORT_KEY: Final = re.compile(r'"(?:success|error|message)')
_TEXTS: Final = ("error", "message", "detail", "reason", "stderr")
_NO_REASON: Final = "the tool reports a failure without a reason"
# 42501 is the SQLSTATE of a missing privilege.
_REFUSAL_CODES: Final = frozenset({"401", "403", "42501", "denied", "forbidden", "eacces", "eperm"})
_WORDS: Final = ("denied", "authori", "privilege", "permi", "forbidden")
"""Each phrase has one of these words. Most texts have none, and so take no search."""
_PHRASE: Final = r"""(?:
    (?:access|permissions?)[\s_-]*(?:(?:is|was|were|has\s+been)\s+)?denied
  | access\s+to\s.{1,100}?\b(?:is|was|has\s+been)\s+denied
  | permission\s+(?:to\s+)?\S+\s+denied
  | command\s+denied\s+to\s+user
  | (?:(?<![a-z])not|n\Wt)[\s_-]*authori[sz]ed
  | unauthori[sz]ed
  | \b(?:do|does|did)(?:\s+not|n\Wt)\s+have\s(?:(?!\.\s).){0,100}?\bprivileges?\b
  | \b(?:(?:do|does|did)(?:\s+not|n\Wt)\s+have|ha(?:s|ve)\s+no|lacks?)
    \s+(?:\S+\s+){0,2}(?:permission|authori[sz]ation)s?\b
  | \blacks?\s+(?:\S+\s+){0,3}privileges?\b
  | insufficient[\s_-]*(?:privilege|permission)s?
  | operation[\s_-]*not[\s_-]*permitted
  | \b403\W+(?:client\s+error\W+)?forbidden | \bis\s+forbidden: | \A\W*forbidden\W*\Z
)"""
# A text mentions a phrase without being a refusal: in a condition, in quotation marks, or as a kind of thing in a list.
_MENTION: Final = rf"""
    \b(?:if|whether|unless|about|no)\s+(?:[\w'-]+\s+){{0,3}}?{_PHRASE}
  | \b(?:an?|the|any|against)\s+unauthori[sz]ed
  | \w\s(?P<mark>["'`]){_PHRASE}(?P=mark)
  | {_PHRASE}(?:[\s_-]+\w+){{0,2}}?[\s_-]+(?:attempts|cases|entries|errors|events|lines|messages|requests|responses)\b
  | {_PHRASE}["'`]?\s*[:=]\s*(?!40[13]\b)\d+\b
"""
_REFUSAL: Final = re.compile(_PHRASE, re.IGNORECASE | re.VERBOSE)
# The mentions come first, and so take the phrases in them.
_SEARCH: Final = re.compile(rf"{_MENTION}|(?P<refusal>{_PHRASE})", re.IGNORECASE | re.VERBOSE)


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
    if ok:
        return _OK
    report = _parsed(value) if ok is None else _result_report(value)
    if isinstance(report, str):
        return ToolStatus(Status.DENIED, report.strip()) if _is_refusal(report) else _OK
    success = report.get("success") if isinstance(report, Mapping) else True
    if success is not False and success is not None:
        return _OK
    message = _error_text(report, is_failure=success is False)
    if _is_refused(report, message, is_failure=success is False):
        return ToolStatus(Status.DENIED, message or _NO_REASON)
    return ToolStatus(Status.FAILED, message or _NO_REASON) if success is False else _OK


def _parsed(value: JsonValue) -> Any:
    """Return the value, or what it stands for if it is the JSON of a report."""
    if not isinstance(value, str) or not _may_be_report(value):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _may_be_report(text: str) -> bool:
    start = text.lstrip()[:1]
    if len(text) <= MAX_REFUSAL:
        return start in ("{", "[", '"')
    if start != "{" or len(text) > _MAX_JSON or not _REPORT_KEY.search(text):
        return False
    return len(text) <= MAX_PARTS or count_parts(text.encode("utf-8", "replace")) <= MAX_PARTS


def _result_report(value: JsonValue) -> dict[str, Any]:
    """Return the mapping that says the same as a `ToolResult` that is not ok."""
    parts = value if isinstance(value, dict) else {}
    meta = parts.get("meta")
    text = _first_text(parts, ("stderr", "stdout"))
    return {**(meta if isinstance(meta, dict) else {}), **({"error": _parsed(text)} if text else {}), "success": False}


def _is_refused(report: Mapping[str, Any], message: str, *, is_failure: bool) -> bool:
    reasons = [text for text in (message, report.get("message")) if isinstance(text, str)]
    if any(_is_refusal(text[:MAX_REFUSAL] if is_failure else text) for text in reasons):
        return True
    error = report.get("error")
    codes = [report.get("error_code")]
    if is_failure or any(reasons):
        codes.append(report.get("code"))
    if isinstance(error, Mapping):
        codes += [error.get("error_code"), error.get("code")]
    return any(_is_refusal_code(code) for code in codes)


def _is_refusal(text: str) -> bool:
    """Return whether a text is a refusal, and neither the mention of one nor a page about them."""
    if len(text) > MAX_REFUSAL or not any(word in text.lower() for word in _WORDS):
        return False
    return any(found["refusal"] for found in _SEARCH.finditer(text))


def _is_refusal_code(code: object) -> bool:
    if not isinstance(code, str | int):
        return False
    text = str(code).strip().lower()[:MAX_REFUSAL]
    return text in _REFUSAL_CODES or _REFUSAL.search(text) is not None


def _error_text(report: Mapping[str, Any], *, is_failure: bool) -> str:
    """Return the error, or the field that stands in for it."""
    error = report.get("error")
    inner = _first_text(error, _TEXTS) if isinstance(error, Mapping) else ""
    found = inner or _first_text(report, _TEXTS if is_failure else _TEXTS[:2])
    return found or (_brief(error) if error and is_failure else "")


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    texts = (document.get(name) for name in names)
    return next((text.strip()[:_MAX_MESSAGE] for text in texts if isinstance(text, str) and text.strip()), "")


def _brief(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:_MAX_MESSAGE]
