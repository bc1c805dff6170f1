"""Where a text may be cut, and the two ends of it that cutting needs.

A cut never falls inside `\\r\\n`, between a combining mark and its base, or beside a zero-width joiner. Whether a place
is a border depends on the characters on both sides of it, so each function takes one character more than it returns.

Line cuts leave the line break with the text that is shown, on both sides: a head ends after one, a tail begins before
one. A notice put between them stands on a line of its own, although not a single character was added for it. A line
border is taken only if it saves at least half of the room: otherwise one long line would empty the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from unicodedata import category

_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A text as seen from both ends: all of it twice when it is short, else what was kept of each end.

    For any budget it is shaped to, `head` is longer than the budget, or it is the whole text; `tail` likewise.
    """

    head: str
    tail: str
    characters: int
    newlines: int
    dropped: int = 0  # characters that followed and were not kept

    @classmethod
    def whole(cls, text: str, *, dropped: int = 0) -> Ends:
        return cls(head=text, tail=text, characters=len(text), newlines=text.count("\n"), dropped=dropped)


@dataclass(frozen=True, slots=True)
class Cut:
    """What is shown of a text: its beginning and its end."""

    head: str
    tail: str

    @property
    def shown(self) -> int:
        return len(self.head) + len(self.tail)


def is_border(text: str, *, at: int) -> bool:
    """Whether the text may be cut before the character at that index."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    return _JOINER not in (before, after) and not category(after).startswith("M")


def prefix(text: str, *, most: int) -> str:
    """The longest beginning of at most so many characters."""
    at = min(most, len(text))
    while not is_border(text, at=at):
        at -= 1
    return text[:at]


def suffix(text: str, *, most: int) -> str:
    """The longest end of at most so many characters, and without the first, which only tells what it follows."""
    at = max(len(text) - most, 1)
    while not is_border(text, at=at):
        at += 1
    return text[at:]


def prefix_of_lines(text: str, *, most: int) -> str:
    """A beginning of whole lines, or the longest beginning where lines are too long for that."""
    longest = prefix(text, most=most)
    end = longest.rfind("\n") + 1
    while end > len(longest) // 2:
        if is_border(text, at=end):
            return text[:end]
        end = longest.rfind("\n", 0, end - 1) + 1
    return longest


def suffix_of_lines(text: str, *, most: int) -> str:
    """An end that begins with a line break, or the longest end where lines are too long for that."""
    longest = suffix(text, most=most)
    first = len(text) - len(longest)
    last = first + (len(longest) + 1) // 2
    newline = text.find("\n", first, last)
    while newline >= 0:
        at = newline - 1 if text[newline - 1] == "\r" else newline
        if is_border(text, at=at):
            return text[at:]
        newline = text.find("\n", newline + 1, last)
    return longest
