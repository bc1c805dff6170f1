"""Notices: the text in the place of what was left out, at most 200 characters in all.

A notice is outside of the budget. A notice says how much is missing of how much, which lines the gap touches, and where
the whole can be read. A notice that would be too long leaves out the less important parts. A tool can imitate a notice,
but not the counts next to the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_NOTICE_CHARACTERS: Final = 200
_MAX_GAP_LENGTH: Final = 140  # with a notice on what was dropped behind it
_FOUND: Final = re.compile(
    r'"?\[… (?:(?P<omitted>\d+) of \d+ characters omitted|last (?P<dropped>\d+) characters dropped)'
    r"(?: \((?P<unit>line|row)s? (?P<first>\d+)(?:\N{EN DASH}(?P<last>\d+))?"
    r"(?:; (?P<kept>\d+|one) lines? of it follows?)?\))?"
    r'[^\n"\\\]]*…\]"?'
)


@dataclass(frozen=True, slots=True)
class Notice:
    """The facts that all notices of one output share."""

    characters: int  # in the whole output
    dropped: int = 0  # at the end, and not kept
    artifact: str | None = None
    is_partial: bool = False  # the artifact does not hold all of it either

    def gap(self, *, shown: int, lines: tuple[int, int] | None = None, unit: str = "line", kept: int = 0) -> str:
        """Return the notice for characters that were kept and are not shown."""
        omitted = self.characters - self.dropped - shown
        count = f"{omitted} of {self.characters} characters omitted"
        where = _range(lines, unit) if lines else ""
        also = f"; {kept} lines of it follow" if kept > 1 else "; one line of it follows" if kept else ""
        place = f" ({where}{also})" if where else ""
        what = "kept" if self.dropped or self.is_partial else "whole"
        whole = f"; {what} output: artifact {self.artifact}" if self.artifact else ""
        most = _MAX_GAP_LENGTH if self.dropped else MAX_NOTICE_CHARACTERS
        texts = (f"[… {count}{place}{whole} …]", f"[… {count}{whole} …]", f"[… {count}{place} …]")
        return next((text for text in texts if len(text) <= most), f"[… {count} …]")

    def end(self) -> str:
        """Return the notice for characters that were not kept, or nothing."""
        return f"[… last {self.dropped} characters dropped: over the output limit …]" if self.dropped else ""


@dataclass(frozen=True, slots=True)
class FoundNotice:
    """A notice in a text that was shaped before."""

    begin: int
    end: int
    lines: tuple[int, int] | None
    unit: str | None = None
    kept: int = 0


def without_notices(text: str) -> int | None:
    """Return the length of a text without its notices; None for no notices, or for more than are ever written."""
    found = [len(each[0]) for each in _FOUND.finditer(text)]
    return len(text) - sum(found) if found and len(found) <= 2 and sum(found) <= MAX_NOTICE_CHARACTERS + 2 else None


def find_gap(text: str, *, omitted: int) -> FoundNotice | None:
    """Return the notice for this number of characters."""
    for each in _FOUND.finditer(text):
        if each["omitted"] is not None and int(each["omitted"][:20]) == omitted:
            first = int(each["first"]) if each["first"] else None
            lines = None if first is None else (first, int(each["last"] or first))
            kept = 1 if each["kept"] == "one" else int(each["kept"] or 0)
            return FoundNotice(each.start(), each.end(), lines, each["unit"], kept)
    return None


def find_dropped(text: str) -> tuple[int, str]:
    """Return how many characters were not kept, by the notice at the end, and the text without that notice."""
    found = list(_FOUND.finditer(text))
    if not found or found[-1]["dropped"] is None or found[-1].end() < len(text):
        return 0, text
    return int(found[-1]["dropped"]), text[: found[-1].start()]


def _range(numbers: tuple[int, int], unit: str) -> str:
    first, last = numbers
    return f"{unit} {first}" if first == last else f"{unit}s {first}\N{EN DASH}{last}"


def strip_notices(text: str) -> str:
    """Return the text with nothing in the place of its notices."""
    return _FOUND.sub("", text)
