"""Texts: a beginning and an end with the notice between them, and the highlighted lines of the gap.

Highlighted lines stand between the notice and the end, in their order, each after the number of its line. Highlights
take up to a quarter of the budget; if not all of them have room, vital lines come first, then the first and the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from sandbox.outputs.boundaries import (
    prefix,
    prefix_of_lines,
    prefix_of_sentences,
    suffix_of_lines,
    suffix_of_sentences,
)
from sandbox.outputs.highlights import Highlight
from sandbox.outputs.notices import Notice
from sandbox.outputs.shapes.shape import Fit
from sandbox.outputs.text_ends import TextEnds

_SHARE_OF_MARKS: Final = 4


class CutText(Protocol):
    """A function of `boundaries`."""

    def __call__(self, text: str, *, most: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The shown parts of a text: its beginning and its end."""

    head: str
    tail: str

    @property
    def shown(self) -> int:
        return len(self.head) + len(self.tail)


def cut_lines(ends: TextEnds, *, first: int, budget: int) -> Cut:
    """Return a beginning of at most `first` characters and an end with the rest of the budget, in whole lines if
    possible.
    """
    return cut(ends, first=first, budget=budget, begin=prefix_of_lines, end=suffix_of_lines)


def cut(ends: TextEnds, *, first: int, budget: int, begin: CutText, end: CutText) -> Cut:
    """Return the same with other borders."""
    head = begin(ends.head, most=first)
    return Cut(head, end(ends.tail, most=budget - len(head)))


def fit_ends(ends: TextEnds, cut: Cut, notice: Notice) -> Fit:
    """Return the ends with the notice between them."""
    gap = notice.gap(shown=cut.shown, lines=lines_of_gap(ends, cut))
    return Fit(cut.head + gap + cut.tail, cut.shown)


def fit_ends_and_marks(ends: TextEnds, budget: int, notice: Notice, *, first: int, of: int) -> Fit:
    """Return the ends, `first` parts `of` all for the beginning, with the highlights between them."""
    without = cut_lines(ends, first=budget * first // of, budget=budget)
    wanted = sum(len(_highlight_text(mark)) for mark in _in_gap(ends, without)) + 1
    room = min(wanted, budget // _SHARE_OF_MARKS)
    around = cut_lines(ends, first=(budget - room) * first // of, budget=budget - room)
    kept = _choose(list(_in_gap(ends, around)), room=room - 1)
    if not kept:
        return fit_ends(ends, without, notice)
    shown = around.shown + sum(len(mark.text) for mark in kept)
    gap = notice.gap(shown=shown, lines=lines_of_gap(ends, around), kept=len(kept))
    middle = "\n" + "".join(_highlight_text(mark) for mark in kept)
    if around.tail.startswith(("\n", "\r\n")):
        middle = middle[:-1]
    return Fit(around.head + gap + middle + around.tail, shown)


def lines_of_gap(ends: TextEnds, cut: Cut) -> tuple[int, int]:
    """Return the first and the last line that the gap touches; a line break belongs to the line that it ends."""
    first = cut.head.count("\n") + 1
    unshown = ends.tail[: len(ends.tail) - len(cut.tail)]
    return first, ends.newlines - cut.tail.count("\n") - unshown.endswith("\n") + 1


def _in_gap(ends: TextEnds, cut: Cut) -> Iterator[Highlight]:
    """Yield the marks that begin in the gap, without what the end shows of them."""
    begin, end = len(cut.head), ends.characters - len(cut.tail)
    for mark in ends.highlights:
        if begin <= mark.at < end:
            is_in_end = mark.at + len(mark.text) > end
            yield replace(mark, text=mark.text[: end - mark.at]) if is_in_end else mark


def _highlight_text(mark: Highlight) -> str:
    return f"[line {mark.line}] {mark.text.rstrip()}{'…' if mark.is_cut else ''}\n"


def _choose(marks: list[Highlight], *, room: int) -> list[Highlight]:
    """Return as many as have room: the vital ones from the last on, then the outermost first."""
    others = [mark for mark in marks if not mark.is_vital]
    inwards = [others[n // 2 if n % 2 == 0 else -1 - n // 2] for n in range(len(others))]
    kept = []
    for mark in [*(mark for mark in reversed(marks) if mark.is_vital), *inwards]:
        size = len(_highlight_text(mark))
        if size <= room:
            room -= size
            kept.append(mark)
    return sorted(kept, key=lambda mark: mark.at)


def execution_result(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Show the first half and the last, in whole lines if possible, and the lines between that look like errors."""
    return fit_ends_and_marks(ends, budget, notice, first=1, of=2)


def error_message(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Show a quarter from the beginning and the rest from the end, because a traceback ends with the error.

    The last frames of the tool's own code and the beginning of the message are kept wherever they are, then lines that
    look like errors.
    """
    return fit_ends_and_marks(ends, budget, notice, first=1, of=4)


def status_message(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Return the beginning."""
    return fit_ends(ends, Cut(prefix(ends.head, most=budget), ""), notice)


def knowledge_content(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Return the first half and the last, at the ends of lines or sentences."""
    halves = cut(ends, first=budget // 2, budget=budget, begin=prefix_of_sentences, end=suffix_of_sentences)
    return fit_ends(ends, halves, notice)


def file_content(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Return the first half and the last in whole lines; the notice has the numbers of those between."""
    return fit_ends(ends, cut_lines(ends, first=budget // 2, budget=budget), notice)


def unshown(ends: TextEnds, budget: int, notice: Notice) -> Fit:  # noqa: ARG001  (like every other form)
    """Show nothing: a reference replaces an output that is not text."""
    return fit_ends(ends, Cut("", ""), notice)
