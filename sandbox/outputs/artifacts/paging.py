"""Paging: a part of an artifact, by lines or by bytes, found without holding more of it than a block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, Final

from sandbox.errors import SpecError

MOST_SHOWN: Final = 1 << 20
"""As many bytes are given at once; the rest is there to be asked for."""
_BLOCK: Final = 1 << 18
_SPAN: Final = re.compile(r"(\d{0,18}):(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` on, up to `last`; both may be left open."""

    first: int | None = None
    last: int | None = None

    @classmethod
    def read(cls, text: str, *, option: str) -> Span:
        """`A:B`, `A:`, `:B`; raises `SpecError` for anything else."""
        match = _SPAN.fullmatch(text)
        if match is None or text == ":":
            raise SpecError(f"{option} {text[:80]!r} is no span", remedy=f"write it like {option} 10:20, 10: or :20")
        return cls(*(int(each) if each else None for each in match.groups()))


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes from `start` up to `end`, of `total`; `is_cut` where more was asked for than is given at once."""

    data: bytes
    start: int
    total: int
    first_line: int | None = None
    """The number of its first line, where lines were asked for."""
    is_cut: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    @property
    def text(self) -> str:
        """As text; what is not UTF-8 is U+FFFD."""
        return self.data.decode("utf-8", "replace")


def page_of_bytes(file: IO[bytes], span: Span, *, total: int) -> Page:
    """From byte `first`, counted from 0, up to but without byte `last`."""
    start = min(span.first or 0, total)
    end = total if span.last is None else max(min(span.last, total), start)
    return _read(file, start, end, total=total)


def page_of_lines(file: IO[bytes], span: Span, *, total: int) -> Page:
    """From line `first`, counted from 1, up to and with line `last`."""
    first = max(span.first or 1, 1)
    start = _skip_lines(file, first - 1, at=0)
    end = total if span.last is None else _skip_lines(file, max(span.last - first + 1, 0), at=start)
    return _read(file, start, end, total=total, first_line=first)


def _read(file: IO[bytes], start: int, end: int, *, total: int, first_line: int | None = None) -> Page:
    file.seek(start)
    data = file.read(min(end - start, MOST_SHOWN))
    return Page(data, start, total, first_line=first_line, is_cut=end - start > MOST_SHOWN)


def _skip_lines(file: IO[bytes], count: int, *, at: int) -> int:
    """Where the line begins that many lines after the one at `at`; the end of the file when there are not so many."""
    file.seek(at)
    while count and (block := file.read(_BLOCK)):
        there = block.count(b"\n")
        if there >= count:
            return at + _after(block, count)
        count -= there
        at += len(block)
    return at


def _after(block: bytes, count: int) -> int:
    place = -1
    for _ in range(count):
        place = block.index(b"\n", place + 1)
    return place + 1
