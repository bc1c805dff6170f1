"""Highlights: lines in the middle of a long output that are worth showing although the middle is not.

A few letters decide, so that a flood is searched as fast as it comes: an error is a line that says error, exception,
fail or fatal in one of the usual spellings, and a frame is the block of a traceback that names code of the tool's own,
or the last block before the message. The first and the last errors are kept, and the last frames. Only the beginning of
a line is kept.

A piece of text ends with a line, or in the middle of a line that is too long to be held. Lines that are only partly in
a piece are left out, and so are lines that smaller pieces would have cut: the highlights do not depend on how the text
was cut.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from sandbox.outputs.boundaries import prefix
from sandbox.outputs.terminal import MAX_LINE_CHARACTERS


@dataclass(frozen=True, slots=True)
class Highlight:
    """The beginning of a line, or of a few that belong together, and where it is: `at` counts characters from 0."""

    at: int
    line: int
    text: str
    is_cut: bool = False
    is_vital: bool = False
    """Whether it comes before those that are not, where not all have room."""


FindLines = Callable[[str], Iterator[tuple[int, int]]]


class TextPiece:
    """A piece of text, and the lines in it; lines that are only partly in it are left out."""

    def __init__(self, text: str, *, whole_from: int) -> None:
        self.text = text
        self._whole_from = whole_from

    def nearest(self, spellings: list[str], hits: FindLines, *, most: int) -> set[tuple[int, int]]:
        """Return the positions of the lines with one of the spellings, at most `most` of each."""
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
        return end < len(self.text) and end - begin <= MAX_LINE_CHARACTERS


class TextPosition:
    """Where in the whole text a piece begins."""

    def __init__(self) -> None:
        self._at = 0
        self._line = 1
        self._is_in_line = False

    def move(self, text: str, *, newlines: int) -> None:
        """Move past that piece."""
        if text:
            self._at += len(text)
            self._line += newlines
            self._is_in_line = not text.endswith("\n")

    def whole_from(self, text: str) -> int:
        """Return where the first line begins that begins in that piece."""
        return (text.find("\n") + 1 or len(text)) if self._is_in_line else 0

    def marks(self, text: str, places: list[tuple[int, int]], *, most: int) -> Iterator[Highlight]:
        at = lines = 0
        for begin, end in places:
            lines += text.count("\n", at, begin)
            at = begin
            kept = prefix(text[begin:end], most=most)
            yield Highlight(self._at + begin, self._line + lines, kept, is_cut=len(kept) < end - begin)


_MAX_ERRORS: Final = 32
_MAX_ERROR_LENGTH: Final = 300
_ERRORS: Final[Mapping[bytes, tuple[str, ...]]] = {
    b"error": ("error", "Error", "ERROR"),
    b"exception": ("exception", "Exception"),
    b"fail": ("fail", "Fail", "FAIL"),
    b"fatal": ("fatal", "Fatal", "FATAL"),
}
"""A text that has none of the words, whatever its capitals, has none of their spellings; and it is searched in a third
of the time, from behind, which takes half the time of the other way."""
_MAX_FRAMES: Final = 3
_MAX_FRAME_LENGTH: Final = 600
_FRAME: Final = '  File "'
_LINES_OF_FRAME: Final = 4
"""The frame's own line, the code, the marks below the code, and the next line: the message, for the last frame."""
_LIBRARY: Final = re.compile(r'  File "(?:<frozen |[^"\n]*/(?:site-packages|dist-packages|python\d[\d.]*)/)')


class Highlighter(Protocol):
    """Collects the marks of one text."""

    def feed(self, text: str, *, newlines: int) -> None: ...

    def highlights(self) -> tuple[Highlight, ...]: ...


class NoHighlights:
    """For outputs of which only the ends matter."""

    def feed(self, text: str, *, newlines: int) -> None:
        """Ignore the text."""

    def highlights(self) -> tuple[Highlight, ...]:
        return ()


class ErrorHighlights:
    """The first and the last lines that look like errors."""

    def __init__(self) -> None:
        self._place = TextPosition()
        self._first: list[Highlight] = []
        self._last: deque[Highlight] = deque(maxlen=_MAX_ERRORS)

    def feed(self, text: str, *, newlines: int) -> None:
        """Take the next piece; a piece without anything like an error is only searched."""
        spellings = _spellings(text) if newlines else []  # a line that is not complete is no mark yet
        if spellings:
            self._take(TextPiece(text, whole_from=self._place.whole_from(text)), spellings)
        self._place.move(text, newlines=newlines)

    def highlights(self) -> tuple[Highlight, ...]:
        """Return the highlights in the order of the text."""
        shown = {mark.at: mark for mark in (*self._first, *self._last)}
        return tuple(shown[at] for at in sorted(shown))

    def _take(self, lines: TextPiece, spellings: list[str]) -> None:
        wanted = _MAX_ERRORS - len(self._first)
        if wanted:
            first = lines.nearest(spellings, lines.forward, most=wanted)
            self._first += self._place.marks(lines.text, sorted(first)[:wanted], most=_MAX_ERROR_LENGTH)
        last = sorted(lines.nearest(spellings, lines.backward, most=_MAX_ERRORS))
        self._last += self._place.marks(lines.text, last[-_MAX_ERRORS:], most=_MAX_ERROR_LENGTH)


class FrameHighlights:
    """The last frames of a traceback: those of the tool's own code, and the very last with the message."""

    def __init__(self) -> None:
        self._place = TextPosition()
        self._unread = ""  # a frame that has only begun
        self._own: deque[Highlight] = deque(maxlen=_MAX_FRAMES)
        self._last: Highlight | None = None

    def feed(self, text: str, *, newlines: int) -> None:
        """Take the next piece; frames are searched from its end."""
        text = self._unread + text if self._unread else text
        if text.rfind(_FRAME) < 0:
            self._unread = ""
            self._place.move(text, newlines=newlines)
            return
        end = _end_of_frames(text)
        text, self._unread = text[:end], text[end:]
        self._take(TextPiece(text, whole_from=self._place.whole_from(text)))
        self._place.move(text, newlines=text.count("\n"))

    def highlights(self) -> tuple[Highlight, ...]:
        """Return the highlights in the order of the text."""
        shown = {mark.at: mark for mark in (*self._own, *([self._last] if self._last else []))}
        return tuple(shown[at] for at in sorted(shown))

    def _take(self, lines: TextPiece) -> None:
        begins: list[tuple[int, int]] = []
        own: list[tuple[int, int]] = []
        for begin, _ in lines.backward(_FRAME):
            if not lines.text.startswith(_FRAME, begin):
                continue
            frame = (begin, _end_of_frame(lines.text, begin))
            begins = begins or [frame]
            if not _LIBRARY.match(lines.text, begin):
                own.append(frame)
            if len(own) == _MAX_FRAMES:
                break
        self._own += self._place.marks(lines.text, sorted(own), most=_MAX_FRAME_LENGTH)
        self._last = next(iter(self._place.marks(lines.text, begins, most=_MAX_FRAME_LENGTH)), self._last)


class FailureHighlights:
    """Frames, which are vital, and between them lines that look like errors."""

    def __init__(self) -> None:
        self._errors = ErrorHighlights()
        self._frames = FrameHighlights()

    def feed(self, text: str, *, newlines: int) -> None:
        """Take the next piece."""
        self._errors.feed(text, newlines=newlines)
        self._frames.feed(text, newlines=newlines)

    def highlights(self) -> tuple[Highlight, ...]:
        """Return the highlights in the order of the text, each line once."""
        frames = [replace(frame, is_vital=True) for frame in self._frames.highlights()]
        shown = {at for frame in frames for at in range(frame.at, frame.at + max(len(frame.text), 1))}
        errors = [error for error in self._errors.highlights() if error.at not in shown]
        return tuple(sorted([*frames, *errors], key=lambda mark: mark.at))


def _spellings(text: str) -> list[str]:
    """Return the spellings that are in the text."""
    small = text.encode("ascii", "ignore").lower()
    found = [spelling for word, spellings in _ERRORS.items() if small.rfind(word) >= 0 for spelling in spellings]
    return [spelling for spelling in found if text.rfind(spelling) >= 0]


def _end_of_frames(text: str) -> int:
    """Return the position up to which every frame is complete with the lines that belong to it."""
    lines = len(text)
    for _ in range(_LINES_OF_FRAME):
        lines = text.rfind("\n", 0, max(lines, 0))
    begin = text.rfind(f"\n{_FRAME}", max(lines, 0))
    if begin < 0 and not (lines < 0 and text.startswith(_FRAME)):
        return len(text)
    return begin + 1 if len(text) - begin <= _LINES_OF_FRAME * MAX_LINE_CHARACTERS else len(text)


def _end_of_frame(text: str, begin: int) -> int:
    end = begin
    for number in range(_LINES_OF_FRAME):
        if number and text.startswith(_FRAME, end):
            break
        end = text.find("\n", end) + 1 or len(text)
    return end
