"""A beginning and an end with the notice between them, and what was marked in the gap.

Marked lines stand between the notice and the end, in their order, each behind the number of its line. They take up to
a quarter of the budget; where not all of them have room, vital ones come first, then the first and the last.
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
    """One of the functions of `cuts`."""

    def __call__(self, text: str, *, most: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """What is shown of a text: its beginning and its end."""

    head: str
    tail: str

    @property
    def shown(self) -> int:
        return len(self.head) + len(self.tail)


def cut_lines(ends: TextEnds, *, first: int, budget: int) -> Cut:
    """A beginning of so many characters and an end with the rest of the budget, in whole lines where possible."""
    return cut(ends, first=first, budget=budget, begin=prefix_of_lines, end=suffix_of_lines)


def cut(ends: TextEnds, *, first: int, budget: int, begin: CutText, end: CutText) -> Cut:
    """The same with other borders."""
    head = begin(ends.head, most=first)
    return Cut(head, end(ends.tail, most=budget - len(head)))


def fit_ends(ends: TextEnds, cut: Cut, notice: Notice) -> Fit:
    """The ends with the notice between them."""
    gap = notice.gap(shown=cut.shown, lines=lines_of_gap(ends, cut))
    return Fit(cut.head + gap + cut.tail, cut.shown)


def fit_ends_and_marks(ends: TextEnds, budget: int, notice: Notice, *, first: int, of: int) -> Fit:
    """The ends, `first` parts `of` so many for the beginning, with what is marked between them."""
    without = cut_lines(ends, first=budget * first // of, budget=budget)
    wanted = sum(len(_written(mark)) for mark in _in_gap(ends, without)) + 1
    room = min(wanted, budget // _SHARE_OF_MARKS)
    around = cut_lines(ends, first=(budget - room) * first // of, budget=budget - room)
    kept = _chosen(list(_in_gap(ends, around)), room=room - 1)
    if not kept:
        return fit_ends(ends, without, notice)
    shown = around.shown + sum(len(mark.text) for mark in kept)
    gap = notice.gap(shown=shown, lines=lines_of_gap(ends, around), kept=len(kept))
    middle = "\n" + "".join(_written(mark) for mark in kept)
    if around.tail.startswith(("\n", "\r\n")):
        middle = middle[:-1]
    return Fit(around.head + gap + middle + around.tail, shown)


def lines_of_gap(ends: TextEnds, cut: Cut) -> tuple[int, int]:
    """The first and the last line that the gap touches; a line break belongs to the line that it ends."""
    first = cut.head.count("\n") + 1
    unshown = ends.tail[: len(ends.tail) - len(cut.tail)]
    return first, ends.newlines - cut.tail.count("\n") - unshown.endswith("\n") + 1


def _in_gap(ends: TextEnds, cut: Cut) -> Iterator[Highlight]:
    """The marks that begin in the gap, without what the end shows of them."""
    begin, end = len(cut.head), ends.characters - len(cut.tail)
    for mark in ends.highlights:
        if begin <= mark.at < end:
            is_in_end = mark.at + len(mark.text) > end
            yield replace(mark, text=mark.text[: end - mark.at]) if is_in_end else mark


def _written(mark: Highlight) -> str:
    return f"[line {mark.line}] {mark.text.rstrip()}{'…' if mark.is_cut else ''}\n"


def _chosen(marks: list[Highlight], *, room: int) -> list[Highlight]:
    """As many as have room: the vital ones from the last on, then the outermost first."""
    others = [mark for mark in marks if not mark.is_vital]
    inwards = [others[n // 2 if n % 2 == 0 else -1 - n // 2] for n in range(len(others))]
    kept = []
    for mark in [*(mark for mark in reversed(marks) if mark.is_vital), *inwards]:
        size = len(_written(mark))
        if size <= room:
            room -= size
            kept.append(mark)
    return sorted(kept, key=lambda mark: mark.at)


# Texts of each kind: which end matters, and what else must not be lost.


def execution_result(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """The first half and the last, in whole lines where possible, and the lines between that look like errors."""
    return fit_ends_and_marks(ends, budget, notice, first=1, of=2)


def error_message(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """A quarter from the beginning, the rest from the end: a traceback says at its end what happened. The last frames
    of the tool's own code and the beginning of the message are kept wherever they are, then what looks like errors."""
    return fit_ends_and_marks(ends, budget, notice, first=1, of=4)


def status_message(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """The beginning."""
    return fit_ends(ends, Cut(prefix(ends.head, most=budget), ""), notice)


def knowledge_content(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """The first half and the last, at the ends of lines or sentences."""
    halves = cut(ends, first=budget // 2, budget=budget, begin=prefix_of_sentences, end=suffix_of_sentences)
    return fit_ends(ends, halves, notice)


def file_content(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """The first half and the last in whole lines; the notice has the numbers of those between."""
    return fit_ends(ends, cut_lines(ends, first=budget // 2, budget=budget), notice)


def unshown(ends: TextEnds, budget: int, notice: Notice) -> Fit:  # noqa: ARG001  (like every other form)
    """Nothing: what is no text is told by its reference."""
    return fit_ends(ends, Cut("", ""), notice)
