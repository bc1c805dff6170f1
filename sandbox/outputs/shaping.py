"""Shaping: an output fitted into its budget of characters by the shape of its output type.

* A text that fits is unchanged to the byte. Printed types are rendered first as a terminal would show them (see
  `terminal`), which changes only texts with control sequences; the reason says so.
* Otherwise a notice stands where characters are missing, outside of the budget and at most 200 characters long.
* A text that was shaped before, to the same budget or a smaller one, is unchanged: its notice does not count.

Characters are code points. Budget 0 shows the notice only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Final

from sandbox.outcome import Artifact, Json, Shaped, portable_json, printable
from sandbox.outputs.notices import Notice, without_notices
from sandbox.outputs.shapes import shape_for
from sandbox.outputs.shapes.table import read_table, table_text
from sandbox.outputs.shapes.texts import unshown
from sandbox.outputs.terminal import Terminal, is_plain
from sandbox.outputs.text_ends import ParsedValue, TextEnds
from sandbox.trusted import build_trusted

_LONG_BYTES: Final = 256 << 10
_MAX_NAME: Final = 50
_RENDERED: Final = "as a terminal shows it"
_REPLACED: Final = "invalid UTF-8 is shown as U+FFFD"
# Made once: `json.dumps` makes an encoder for each call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def value_type(value: Json) -> str:
    """Return the output type of a value whose tool declares none."""
    if isinstance(value, str):
        return "execution_result"
    return "json_data" if read_table(value) is None else "table"


@cache
def nothing(output_type: str) -> Shaped:
    """Return the shaped form of an empty output."""
    return Shaped(text="", type=output_type, characters=0, shown=0)


def shape_value(
    value: Json, *, budget: int | None = None, output_type: str | None = None, artifact: str | None = None
) -> Shaped:
    """Shape a value as text, within the budget of its type unless another budget is given.

    A string stays as it is, a table is written row by row, and anything else as JSON, without spaces if it is long.
    """
    output_type = output_type or value_type(value)
    room = shape_for(output_type).budget if budget is None else budget
    return shape_of_value(value, output_type=output_type, artifact=artifact)(room)


def shape_of_value(value: Json, *, output_type: str, artifact: str | None = None) -> Callable[[int], Shaped]:
    """Return a function of the budget that shapes the value; its text is made once for all budgets."""
    if isinstance(value, str):
        return lambda budget: shape(value, output_type=output_type, budget=budget, artifact=artifact)
    text, parsed = _text_of(value)

    def fit(budget: int) -> Shaped:
        if len(text) <= budget:
            return unchanged(text, output_type=output_type, artifact=artifact)
        return shape_ends(
            TextEnds.whole(text, parsed=parsed), output_type=output_type, budget=budget, artifact=artifact
        )

    return fit


def shape(text: str, *, output_type: str, budget: int, artifact: str | None = None) -> Shaped:
    """Fit a whole text into the budget."""
    if len(text) <= budget and text.isascii() and is_plain(text):
        return unchanged(text, output_type=output_type, artifact=artifact)
    output_shape = shape_for(output_type)
    if not output_shape.is_printed:
        return shape_ends(TextEnds.whole(text), output_type=output_type, budget=budget, artifact=artifact)
    terminal, highlighter = Terminal(), output_shape.highlighter()
    settled = terminal.feed(text)
    whole = settled + terminal.rest()
    if len(whole) > budget:
        highlighter.feed(settled, newlines=settled.count("\n"))
    ends = TextEnds.whole(whole, highlights=highlighter.highlights(), is_rendered=terminal.has_changed)
    return shape_ends(ends, output_type=output_type, budget=budget, artifact=artifact)


def shape_ends(ends: TextEnds, *, output_type: str, budget: int, artifact: str | None = None) -> Shaped:
    """Fit a text into the budget of which only the ends may have been kept, and which has been rendered before."""
    if budget < 0:
        raise ValueError(f"a budget is 0 or more characters, not {budget}")
    notice = Notice(ends.characters + ends.dropped, dropped=ends.dropped, artifact=artifact)
    is_over = ends.characters > budget and not _is_shaped(ends, budget)
    text, shown = ends.head, ends.characters
    if is_over:
        fit = shape_for(output_type).fit(ends, budget, notice)
        text, shown = fit.text, fit.shown
    return build_trusted(
        Shaped,
        text=printable(text + notice.end()),
        type=output_type,
        characters=ends.characters + ends.dropped,
        shown=shown,
        truncated=is_over or ends.dropped > 0,
        reason=_reason(ends, budget if is_over else None),
        artifact=artifact,
    )


def unchanged(text: str, *, output_type: str, artifact: str | None) -> Shaped:
    """Return the shaped form of a printable text that is shown as it is."""
    return build_trusted(
        Shaped,
        text=text,
        type=output_type,
        characters=len(text),
        shown=len(text),
        truncated=False,
        reason=None,
        artifact=artifact,
    )


def is_reference(output_type: str) -> bool:
    """Return whether outputs of this type are shown as a reference to an artifact."""
    return shape_for(output_type).fit is unshown


def shape_reference(artifact: Artifact, *, output_type: str) -> Shaped:
    """Return the reference to an output that is not text, on one line of at most 200 characters."""
    size = f"{artifact.width} × {artifact.height}, " if artifact.width and artifact.height else ""  # noqa: RUF001
    name = "".join(each if each.isprintable() else "\ufffd" for each in artifact.name[:_MAX_NAME])
    about = f"{artifact.mime[:40]}, {size}{artifact.bytes} bytes, sha256 {artifact.digest[:12]}…"
    text = f"[{output_type} {name}: {about}, artifact {artifact.id}]"
    return Shaped(text=text, type=output_type, characters=len(text), shown=len(text), artifact=artifact.id)


def _is_shaped(ends: TextEnds, budget: int) -> bool:
    """Return whether the text is longer than the budget only because of its notices."""
    if not ends.is_whole or ends.characters > budget + 202:
        return False
    characters = without_notices(ends.head)
    return characters is not None and characters <= budget


def _text_of(value: Json) -> tuple[str, ParsedValue]:
    if type(value) is int:
        return str(value), ParsedValue(value)
    if value is None or isinstance(value, int):
        return _ENCODER.encode(value), ParsedValue(value)
    fit, compact = portable_json(value)
    found = read_table(fit)
    if found is not None:
        return table_text(found), ParsedValue(fit)
    # Spaces are for eyes: few of a long text are shown, and encoding it again with spaces takes ten times as long.
    text = compact.decode() if len(compact) > _LONG_BYTES else _ENCODER.encode(fit)
    return text, ParsedValue(fit)


def _reason(ends: TextEnds, budget: int | None) -> str | None:
    reasons = [_RENDERED] * ends.is_rendered + [_REPLACED] * ends.has_replacements
    if budget is not None:
        reasons.append(f"over the budget of {budget} characters")
    if ends.dropped:
        reasons.append("over the output limit")
    return "; ".join(reasons) or None
