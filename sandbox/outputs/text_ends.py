"""Ends: what is known of a text when it is shaped, all of it or what was kept of it."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.outcome import Json
from sandbox.outputs.highlights import Highlight


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """The value that a text is the JSON, or the rendering, of; a value may be None, so it has a box."""

    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEnds:
    """A text as seen from both ends: all of it twice when it is short, else what was kept of each end.

    For any budget it is shaped to, `head` is longer than the budget, or it is the whole text; `tail` likewise.
    """

    head: str
    tail: str
    characters: int
    newlines: int
    dropped: int = 0  # characters that followed and were not kept
    highlights: tuple[Highlight, ...] = ()  # lines worth showing when they are in neither end
    parsed: ParsedValue | None = None
    is_rendered: bool = False  # differs from the printed text, as a terminal shows it
    has_replacements: bool = False  # invalid UTF-8 became U+FFFD

    @classmethod
    def whole(
        cls,
        text: str,
        *,
        dropped: int = 0,
        highlights: tuple[Highlight, ...] = (),
        parsed: ParsedValue | None = None,
        is_rendered: bool = False,
        has_replacements: bool = False,
    ) -> TextEnds:
        """Return a text that is at hand from beginning to end."""
        return cls(
            head=text,
            tail=text,
            characters=len(text),
            newlines=text.count("\n"),
            dropped=dropped,
            highlights=highlights,
            parsed=parsed,
            is_rendered=is_rendered,
            has_replacements=has_replacements,
        )

    @property
    def is_whole(self) -> bool:
        return len(self.head) == self.characters
