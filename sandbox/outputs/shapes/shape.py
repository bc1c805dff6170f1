"""What a form is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandbox.outputs.highlights import Highlighter, NoHighlights
from sandbox.outputs.notices import Notice
from sandbox.outputs.text_ends import TextEnds


@dataclass(frozen=True, slots=True)
class Fit:
    """A text with its notice, and how many characters of the original it shows."""

    text: str
    shown: int


class Fitter(Protocol):
    """Fits what is too long."""

    def __call__(self, ends: TextEnds, budget: int, notice: Notice) -> Fit: ...


@dataclass(frozen=True, slots=True)
class OutputShape:
    """One output type: its budget and its memory budget where nobody asks for others, and how it is fitted."""

    budget: int
    memory: int
    fit: Fitter
    is_printed: bool = False
    """Whether it is read as a terminal would show it."""
    marks: Callable[[], Highlighter] = NoHighlights
    kept: int = 0
    """Characters of a stream that are kept from its beginning, where a form needs all of a text to fit it."""
