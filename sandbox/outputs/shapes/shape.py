"""The output shape: how an output of one type is fitted into its budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandbox.outputs.highlights import Highlighter, NoHighlights
from sandbox.outputs.notices import Notice
from sandbox.outputs.text_ends import TextEnds


@dataclass(frozen=True, slots=True)
class Fit:
    """A text with its notice, and the number of characters of the original that it shows."""

    text: str
    shown: int


class Fitter(Protocol):
    """Fits a text that is longer than the budget."""

    def __call__(self, ends: TextEnds, budget: int, notice: Notice) -> Fit: ...


@dataclass(frozen=True, slots=True)
class OutputShape:
    """An output type: its default budgets, and the function that fits it."""

    budget: int
    history: int
    """The budget in the history of a conversation."""
    fit: Fitter
    is_printed: bool = False
    """Whether the text is rendered as a terminal would show it."""
    highlighter: Callable[[], Highlighter] = NoHighlights
    kept: int = 0
    """Characters kept from the beginning of a stream, for a type that needs the whole text to fit it."""
