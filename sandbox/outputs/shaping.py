"""Shaping: an output fitted into its budget of characters according to its output type.

All types are in the table `SHAPES`: a new one is a function in a file of `forms` and a line here. A form decides what
is shown of a text that is too long; everything else is the same for all of them:

* Whatever fits is unchanged to the byte. Printed types are read first as a terminal would show them (see `terminal`),
  which changes only what has control sequences; the reason says that it was done.
* Otherwise a notice stands where characters are missing, outside of the budget and at most 200 characters long.
* A text that was shaped before, to the same budget or a smaller one, is unchanged too: its notice is not counted.

Characters are code points. Budget 0 shows the notice only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from sandbox.outcome import Artifact, Json, Shaped, portable_json, printable
from sandbox.outputs.highlights import ErrorHighlights, FailureHighlights
from sandbox.outputs.notices import Notice, without_notices
from sandbox.outputs.shapes.json_data import json_data
from sandbox.outputs.shapes.references import reference
from sandbox.outputs.shapes.shape import OutputShape
from sandbox.outputs.shapes.table import read_table, table, written
from sandbox.outputs.shapes.texts import (
    error_message,
    execution_result,
    file_content,
    knowledge_content,
    status_message,
    unshown,
)
from sandbox.outputs.terminal import Terminal
from sandbox.outputs.text_ends import ParsedValue, TextEnds
from sandbox.unchecked import unchecked

STDOUT_TYPE: Final = "execution_result"
STDERR_TYPE: Final = "error_message"
_LONG_BYTES: Final = 256 << 10
_READ: Final = "as a terminal shows it"
_MENDED: Final = "what is no UTF-8 is shown as U+FFFD"

SHAPES: Final[Mapping[str, OutputShape]] = {
    "knowledge_content": OutputShape(60_000, 12_000, knowledge_content),
    "file_content": OutputShape(60_000, 12_000, file_content),
    "file_view_result": OutputShape(60_000, 12_000, file_content),
    "execution_result": OutputShape(8_000, 12_000, execution_result, is_printed=True, marks=ErrorHighlights),
    "error_message": OutputShape(8_000, 12_000, error_message, is_printed=True, marks=FailureHighlights),
    "status_message": OutputShape(2_000, 4_000, status_message, is_printed=True),
    "json_data": OutputShape(8_000, 12_000, json_data, kept=2 << 20),
    "table": OutputShape(8_000, 12_000, table),
    "image": OutputShape(0, 0, unshown),
    "binary": OutputShape(0, 0, unshown),
    "file": OutputShape(0, 0, unshown),
}
_UNKNOWN: Final = OutputShape(2_000, 4_000, execution_result, is_printed=True, marks=ErrorHighlights)


def shape_for(output_type: str) -> OutputShape:
    """How an output of this type is fitted; a type that nobody knows has a form as well."""
    return SHAPES.get(output_type, _UNKNOWN)


def value_type(value: Json) -> str:
    """The output type of a value whose tool declares none."""
    if isinstance(value, str):
        return "execution_result"
    return "json_data" if read_table(value) is None else "table"


@cache
def nothing(output_type: str) -> Shaped:
    """What is shown of an output that is empty."""
    return Shaped(text="", type=output_type, characters=0, shown=0)


def shape_value(
    value: Json, *, budget: int | None = None, output_type: str | None = None, artifact: str | None = None
) -> Shaped:
    """The value as text: a string as it is, a table row by row, anything else as JSON, without spaces when it is long.
    Without a budget, that of its type."""
    output_type = output_type or value_type(value)
    room = shape_for(output_type).budget if budget is None else budget
    return shape_of_value(value, output_type=output_type, artifact=artifact)(room)


def shape_of_value(value: Json, *, output_type: str, artifact: str | None = None) -> Callable[[int], Shaped]:
    """The same for any budget, where several are tried: its text is made once."""
    if isinstance(value, str):
        return lambda budget: shape(value, output_type=output_type, budget=budget, artifact=artifact)
    text, parsed = _text_of(value)

    def fitted(budget: int) -> Shaped:
        if len(text) <= budget:
            return _unchanged(text, output_type=output_type, artifact=artifact)
        return shape_ends(
            TextEnds.whole(text, parsed=parsed), output_type=output_type, budget=budget, artifact=artifact
        )

    return fitted


def shape(text: str, *, output_type: str, budget: int, artifact: str | None = None) -> Shaped:
    """A text that is at hand as a whole, fitted into the budget."""
    form = shape_for(output_type)
    if not form.is_printed:
        return shape_ends(TextEnds.whole(text), output_type=output_type, budget=budget, artifact=artifact)
    terminal, marks = Terminal(), form.marks()
    settled = terminal.feed(text)
    whole = settled + terminal.rest()
    if len(whole) > budget:
        marks.feed(settled, newlines=settled.count("\n"))
    ends = TextEnds.whole(whole, marks=marks.found(), is_read=terminal.has_changed)
    return shape_ends(ends, output_type=output_type, budget=budget, artifact=artifact)


def shape_ends(ends: TextEnds, *, output_type: str, budget: int, artifact: str | None = None) -> Shaped:
    """The same for a text of which only the ends may have been kept; printed types have been read before."""
    if budget < 0:
        raise ValueError(f"a budget is 0 or more characters, not {budget}")
    notice = Notice(ends.characters + ends.dropped, dropped=ends.dropped, artifact=artifact)
    is_over = ends.characters > budget and not _is_shaped(ends, budget)
    text, shown = ends.head, ends.characters
    if is_over:
        fit = shape_for(output_type).fit(ends, budget, notice)
        text, shown = fit.text, fit.shown
    fields = {
        "text": printable(text + notice.end()),
        "type": output_type,
        "characters": ends.characters + ends.dropped,
        "shown": shown,
        "truncated": is_over or ends.dropped > 0,
        "reason": _reason(ends, budget if is_over else None),
        "artifact": artifact,
    }
    return unchecked(Shaped, fields)


def is_reference(output_type: str) -> bool:
    """Whether outputs of this type are told of and not shown."""
    return shape_for(output_type).fit is unshown


def shape_reference(artifact: Artifact, *, output_type: str) -> Shaped:
    """What is told of an output that is no text."""
    text = reference(artifact, output_type=output_type)
    return Shaped(text=text, type=output_type, characters=len(text), shown=len(text), artifact=artifact.id)


def _unchanged(text: str, *, output_type: str, artifact: str | None) -> Shaped:
    """A printable text that is shown as it is."""
    fields = {
        "text": text,
        "type": output_type,
        "characters": len(text),
        "shown": len(text),
        "truncated": False,
        "reason": None,
        "artifact": artifact,
    }
    return unchecked(Shaped, fields)


def _is_shaped(ends: TextEnds, budget: int) -> bool:
    """Whether it is only longer than the budget because of its notices."""
    if not ends.is_whole or ends.characters > budget + 202:
        return False
    characters = without_notices(ends.head)
    return characters is not None and characters <= budget


def _text_of(value: Json) -> tuple[str, ParsedValue]:
    """Spaces are for eyes: in a long text few are shown, and writing it again with them takes ten times as long."""
    if type(value) is int:
        return str(value), ParsedValue(value)
    if value is None or isinstance(value, int):
        return json.dumps(value), ParsedValue(value)
    fit, compact = portable_json(value)
    found = read_table(fit)
    if found is not None:
        return written(found), ParsedValue(fit)
    text = compact.decode() if len(compact) > _LONG_BYTES else json.dumps(fit, ensure_ascii=False)
    return text, ParsedValue(fit)


def _reason(ends: TextEnds, budget: int | None) -> str | None:
    reasons = [_READ] * ends.is_read + [_MENDED] * ends.is_mended
    if budget is not None:
        reasons.append(f"over the budget of {budget} characters")
    if ends.dropped:
        reasons.append("over the output limit")
    return "; ".join(reasons) or None
