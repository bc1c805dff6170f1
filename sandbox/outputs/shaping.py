"""Shaping: an output fitted into its budget of characters according to its output type.

One function per type, all in the table `FORMS`; a new type is one function and one line. A function only decides what
is shown (a `Cut` with no more characters than the budget); notices and counts are made here, the same for all of them.

Whatever fits is returned unchanged. Otherwise a notice stands where characters are missing, outside of the budget and
at most 200 characters long, and the text without notices is exactly a beginning and an end of the original. A tool can
imitate a notice, but not the counts beside the text.

Characters are code points. Budget 0 shows the notice only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from sandbox.outcome import Json, Shaped, portable_json, printable
from sandbox.outputs.cuts import Cut, Ends, prefix, prefix_of_lines, suffix, suffix_of_lines
from sandbox.unchecked import unchecked

STDOUT_TYPE: Final = "execution_result"
STDERR_TYPE: Final = "error_message"
_LONG_BYTES: Final = 256 << 10


def execution_result(ends: Ends, budget: int) -> Cut:
    """The first half and the last, in whole lines where possible."""
    return _lines(ends, budget, first=budget // 2)


def error_message(ends: Ends, budget: int) -> Cut:
    """A quarter from the beginning, the rest from the end: a traceback says at its end what happened."""
    return _lines(ends, budget, first=budget // 4)


def status_message(ends: Ends, budget: int) -> Cut:
    """The beginning."""
    return Cut(prefix(ends.head, most=budget), "")


def json_data(ends: Ends, budget: int) -> Cut:
    """Both halves of the JSON text, which is one line."""
    head = prefix(ends.head, most=budget // 2)
    return Cut(head, suffix(ends.tail, most=budget - len(head)))


def _lines(ends: Ends, budget: int, *, first: int) -> Cut:
    head = prefix_of_lines(ends.head, most=first)
    return Cut(head, suffix_of_lines(ends.tail, most=budget - len(head)))


@dataclass(frozen=True, slots=True)
class Form:
    """How an output type is fitted: its budget when nobody asks for another, and what is shown of it."""

    budget: int
    cut: Callable[[Ends, int], Cut]


FORMS: Final[Mapping[str, Form]] = {
    "execution_result": Form(8_000, execution_result),
    "error_message": Form(8_000, error_message),
    "json_data": Form(8_000, json_data),
    "status_message": Form(2_000, status_message),
}
_UNKNOWN: Final = Form(2_000, execution_result)


def default_budget(output_type: str) -> int:
    """The characters an output of this type may show when nobody says how many."""
    return FORMS.get(output_type, _UNKNOWN).budget


def value_type(value: Json) -> str:
    """The output type of a value whose tool declares none."""
    return "execution_result" if isinstance(value, str) else "json_data"


@cache
def nothing(output_type: str) -> Shaped:
    """What is shown of an output that is empty."""
    return Shaped(text="", type=output_type, characters=0, shown=0)


def shape_value(value: Json, *, budget: int) -> Shaped:
    """The value as text: a string as it is, anything else as JSON, without spaces when it is long."""
    text = value if isinstance(value, str) else _json_text(value)
    return shape(text, output_type=value_type(value), budget=budget)


def _json_text(value: Json) -> str:
    """Spaces are for eyes: in a long text few are shown, and writing it again with them takes ten times as long."""
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, int):
        return json.dumps(value)
    fit, compact = portable_json(value)
    return compact.decode() if len(compact) > _LONG_BYTES else json.dumps(fit, ensure_ascii=False)


def shape(text: str, *, output_type: str, budget: int) -> Shaped:
    """A text that is at hand as a whole, fitted into the budget."""
    return shape_ends(Ends.whole(text), output_type=output_type, budget=budget)


def shape_ends(ends: Ends, *, output_type: str, budget: int) -> Shaped:
    """The same for a text of which only the ends may have been kept."""
    if budget < 0:
        raise ValueError(f"a budget is 0 or more characters, not {budget}")
    is_over = ends.characters > budget
    cut = FORMS.get(output_type, _UNKNOWN).cut(ends, budget) if is_over else Cut(ends.head, "")
    text = cut.head + (_gap_notice(ends, cut) if is_over else "") + cut.tail + _end_notice(ends)
    fields = {
        "text": printable(text),
        "type": output_type,
        "characters": ends.characters + ends.dropped,
        "shown": cut.shown,
        "truncated": is_over or ends.dropped > 0,
        "reason": _reason(budget=budget if is_over else None, is_dropped=ends.dropped > 0),
        "artifact": None,
    }
    return unchecked(Shaped, fields)


def _gap_notice(ends: Ends, cut: Cut) -> str:
    omitted = ends.characters - cut.shown
    return f"[… {omitted} of {ends.characters + ends.dropped} characters omitted ({_line_range(ends, cut)}) …]"


def _end_notice(ends: Ends) -> str:
    if not ends.dropped:
        return ""
    return f"[… last {ends.dropped} of {ends.characters + ends.dropped} characters dropped: over the output limit …]"


def _line_range(ends: Ends, cut: Cut) -> str:
    """The lines that the gap touches; a line break belongs to the line that it ends."""
    first = cut.head.count("\n") + 1
    unshown = ends.tail[: len(ends.tail) - len(cut.tail)]
    last = ends.newlines - cut.tail.count("\n") - unshown.endswith("\n") + 1
    return f"line {first}" if first == last else f"lines {first}\N{EN DASH}{last}"


def _reason(*, budget: int | None, is_dropped: bool) -> str | None:
    reasons = [f"over the budget of {budget} characters"] if budget is not None else []
    return "; ".join([*reasons, *(["over the output limit"] if is_dropped else [])]) or None
