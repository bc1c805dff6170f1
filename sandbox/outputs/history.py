"""The shorter form of an output for the history of a conversation, made from the first form.

The counts and line numbers of an earlier cut refer to the whole output, and stay. A pruned JSON value is pruned further
and stays JSON. An output within its budget for the history, as most are, stays as it is.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Final

from sandbox.outcome import Json, Shaped
from sandbox.outputs.highlights import Highlight
from sandbox.outputs.notices import FoundNotice, find_dropped, find_gap, strip_notices
from sandbox.outputs.shapes import shape_for
from sandbox.outputs.shaping import shape_ends
from sandbox.outputs.text_ends import ParsedValue, TextEnds
from sandbox.outputs.tokens import Tokenizer, shape_within

_MARK: Final = re.compile(r"\n\[line (\d{1,18})\] ([^\n]*)")


def for_history(shaped: Shaped, *, tokens: int | None = None, tokenizer: Tokenizer | None = None) -> Shaped:
    """Return the output within the history budget of its type, and within a number of tokens if one is given."""
    form = shape_for(shaped.type)
    if not form.history:
        return shaped
    return shape_within(partial(_within, shaped), characters=form.history, tokens=tokens, tokenizer=tokenizer)


def _within(shaped: Shaped, budget: int) -> Shaped:
    if len(strip_notices(shaped.text)) <= budget:
        return shaped
    dropped, text = find_dropped(shaped.text)
    ends = _ends_of_json(shaped) if shaped.type == "json_data" else None
    ends = ends or _ends_of_text(text, characters=shaped.characters, shown=shaped.shown, dropped=dropped)
    return shape_ends(ends, output_type=shaped.type, budget=budget, artifact=shaped.artifact)


def is_shown_whole(shaped: Shaped) -> bool:
    """Return whether both forms of the output are complete; otherwise an artifact must hold the exact whole."""
    if shaped.reason is not None:
        return False
    most = shape_for(shaped.type).history
    return not most or len(shaped.text) <= most


def _ends_of_text(text: str, *, characters: int, shown: int, dropped: int) -> TextEnds:
    gap = find_gap(text, omitted=characters - dropped - shown)
    if gap is None:
        return TextEnds.whole(text, dropped=dropped)
    head, tail = text[: gap.begin], text[gap.end :]
    marks, tail = _marks(tail, gap, at=len(head))
    last_line = gap.lines[1] if gap.lines else head.count("\n") + 1
    if gap.unit == "row":
        last_line += 2
    return TextEnds(
        head=head,
        tail=tail,
        characters=characters - dropped,
        newlines=last_line - 1 + tail.count("\n"),
        dropped=dropped,
        highlights=marks,
    )


def _marks(tail: str, gap: FoundNotice, *, at: int) -> tuple[tuple[Highlight, ...], str]:
    """Return the lines that were kept of the gap, of each the first, and the text behind them."""
    found: list[Highlight] = []
    end = 0
    for each in _MARK.finditer(tail):
        if len(found) == gap.kept:
            break
        found.append(Highlight(at + len(found), int(each[1]), each[2]))
        end = each.end()
    return tuple(found), tail[end:]


def _ends_of_json(shaped: Shaped) -> TextEnds | None:
    """Return the value that is shown, without the notice in it."""
    try:
        value: Json = json.loads(shaped.text)
    except (ValueError, RecursionError):
        return None
    if shaped.truncated:
        value = _without_notice(value)
    return TextEnds(head="", tail="", characters=shaped.characters, newlines=0, parsed=ParsedValue(value))


def _without_notice(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if not _is_notice(each)}
    if isinstance(value, list) and value and _is_notice(value[-1]):
        return value[0] if len(value) == 2 and isinstance(value[0], str) else value[:-1]
    return value


def _is_notice(value: Json) -> bool:
    return isinstance(value, str) and bool(value) and not strip_notices(value)
