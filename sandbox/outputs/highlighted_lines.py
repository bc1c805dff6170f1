"""Marked lines: where in a text that comes in pieces the lines are that hold something.

A piece ends with a line, or in the middle of one that is too long to be held. Lines of which a piece holds only a part
are left out, and so are those that would have been cut had the pieces been smaller: what is found does not depend on
how the text was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox.outputs.boundaries import prefix
from sandbox.outputs.terminal import LONGEST_LINE


@dataclass(frozen=True, slots=True)
class Mark:
    """The beginning of a line, or of a few that belong together, and where it is: `at` counts characters from 0."""

    at: int
    line: int
    text: str
    is_cut: bool = False
    is_vital: bool = False
    """Whether it comes before those that are not, where not all have room."""


Hits = Callable[[str], Iterator[tuple[int, int]]]


class Lines:
    """One piece, and the lines in it that hold something; those that it holds only in part are left out."""

    def __init__(self, text: str, *, whole_from: int) -> None:
        self.text = text
        self._whole_from = whole_from

    def nearest(self, spellings: list[str], hits: Hits, *, most: int) -> set[tuple[int, int]]:
        """Where the lines with one of the spellings are, so many of each."""
        return {place for spelling in spellings for _, place in zip(range(most), hits(spelling), strict=False)}

    def forward(self, wanted: str) -> Iterator[tuple[int, int]]:
        at = self.text.find(wanted, self._whole_from)
        while at >= 0:
            begin, end = self._around(at)
            if self._is_whole(begin, end):
                yield begin, end
            at = self.text.find(wanted, end)

    def backward(self, wanted: str) -> Iterator[tuple[int, int]]:
        at = self.text.rfind(wanted, self._whole_from)
        while at >= 0:
            begin, end = self._around(at)
            if self._is_whole(begin, end):
                yield begin, end
            at = self.text.rfind(wanted, self._whole_from, begin)

    def _around(self, at: int) -> tuple[int, int]:
        end = self.text.find("\n", at)
        return max(self.text.rfind("\n", 0, at) + 1, self._whole_from), len(self.text) if end < 0 else end

    def _is_whole(self, begin: int, end: int) -> bool:
        return end < len(self.text) and end - begin <= LONGEST_LINE


class Place:
    """Where in the whole text a piece begins."""

    def __init__(self) -> None:
        self._at = 0
        self._line = 1
        self._is_in_line = False

    def move(self, text: str, *, newlines: int) -> None:
        """Past that piece."""
        if text:
            self._at += len(text)
            self._line += newlines
            self._is_in_line = not text.endswith("\n")

    def whole_from(self, text: str) -> int:
        """Where the first line begins that begins in that piece."""
        return (text.find("\n") + 1 or len(text)) if self._is_in_line else 0

    def marks(self, text: str, places: list[tuple[int, int]], *, most: int) -> Iterator[Mark]:
        at = lines = 0
        for begin, end in places:
            lines += text.count("\n", at, begin)
            at = begin
            kept = prefix(text[begin:end], most=most)
            yield Mark(self._at + begin, self._line + lines, kept, is_cut=len(kept) < end - begin)
