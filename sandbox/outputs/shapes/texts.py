"""Texts of each kind: which end matters, and what else must not be lost."""

from __future__ import annotations

from sandbox.outputs.boundaries import prefix, prefix_of_sentences, suffix_of_sentences
from sandbox.outputs.notices import Notice
from sandbox.outputs.shapes.shape import Fit
from sandbox.outputs.shapes.two_ends import Cut, cut, cut_lines, fit_ends, fit_ends_and_marks
from sandbox.outputs.text_ends import Ends


def execution_result(ends: Ends, budget: int, notice: Notice) -> Fit:
    """The first half and the last, in whole lines where possible, and the lines between that look like errors."""
    return fit_ends_and_marks(ends, budget, notice, first=1, of=2)


def error_message(ends: Ends, budget: int, notice: Notice) -> Fit:
    """A quarter from the beginning, the rest from the end: a traceback says at its end what happened. The last frames
    of the tool's own code and the beginning of the message are kept wherever they are, then what looks like errors."""
    return fit_ends_and_marks(ends, budget, notice, first=1, of=4)


def status_message(ends: Ends, budget: int, notice: Notice) -> Fit:
    """The beginning."""
    return fit_ends(ends, Cut(prefix(ends.head, most=budget), ""), notice)


def knowledge_content(ends: Ends, budget: int, notice: Notice) -> Fit:
    """The first half and the last, at the ends of lines or sentences."""
    halves = cut(ends, first=budget // 2, budget=budget, begin=prefix_of_sentences, end=suffix_of_sentences)
    return fit_ends(ends, halves, notice)


def file_content(ends: Ends, budget: int, notice: Notice) -> Fit:
    """The first half and the last in whole lines; the notice has the numbers of those between."""
    return fit_ends(ends, cut_lines(ends, first=budget // 2, budget=budget), notice)


def unshown(ends: Ends, budget: int, notice: Notice) -> Fit:  # noqa: ARG001  (like every other form)
    """Nothing: what is no text is told by its reference."""
    return fit_ends(ends, Cut("", ""), notice)
