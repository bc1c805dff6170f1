"""Find where a text may be cut.

A cut never falls inside `\\r\\n`, between a combining mark and its base, next to a zero-width joiner, before the skin
tone of an emoji, inside a flag or a Korean syllable. The characters on both sides decide whether a place is a border,
so each function takes one character more than it returns; a row of flags is therefore not cut.

A line cut leaves the line break with the shown text, on both sides: a head ends after one, a tail begins before one. A
notice between them stands on a line of its own, although no character was added for it. A line border is taken only if
it saves at least half of the room: otherwise one long line would empty the output. The same holds for sentences: a head
ends and a tail begins after the space behind a full stop, where no line ends later.
"""

from __future__ import annotations

from typing import Final
from unicodedata import category

_JOINER: Final = "\u200d"
_FIRST_MARK: Final = "\u0300"
_SENTENCE_ENDS: Final = (". ", "! ", "? ", "\u3002", "\uff01", "\uff1f")


def is_border(text: str, *, at: int) -> bool:
    """Return whether the text may be cut before the character at that index."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    if after < _FIRST_MARK:
        return before != _JOINER
    return _JOINER not in (before, after) and not _belongs_to(before, after)


def _belongs_to(before: str, after: str) -> bool:
    """Return whether a character is read as a part of what stands before it."""
    if category(after).startswith("M"):
        return True
    if "\u1160" <= after <= "\u11ff" or "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True  # the rest of a Korean syllable, the skin of an emoji, the rest of a region's flag
    return "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff"


def prefix(text: str, *, most: int) -> str:
    """Return the longest beginning of at most `most` characters."""
    at = min(most, len(text))
    while not is_border(text, at=at):
        at -= 1
    return text[:at]


def suffix(text: str, *, most: int) -> str:
    """Return the longest end of at most `most` characters; the first character of `text` is context only."""
    at = max(len(text) - most, 1)
    while not is_border(text, at=at):
        at += 1
    return text[at:]


def prefix_of_lines(text: str, *, most: int) -> str:
    """Return a beginning of whole lines, or the longest beginning where lines are too long for that."""
    longest = prefix(text, most=most)
    end = longest.rfind("\n") + 1
    while end > len(longest) // 2:
        if is_border(text, at=end):
            return text[:end]
        end = longest.rfind("\n", 0, end - 1) + 1
    return longest


def suffix_of_lines(text: str, *, most: int) -> str:
    """Return an end that begins with a line break, or the longest end where lines are too long for that."""
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


def prefix_of_sentences(text: str, *, most: int) -> str:
    """Return a beginning that ends with a line or a sentence, whichever ends later, or the longest beginning."""
    longest = prefix(text, most=most)
    of_lines = prefix_of_lines(text, most=most)
    least = len(of_lines) if len(of_lines) < len(longest) else len(longest) // 2
    ends = (longest.rfind(each) + len(each) for each in _SENTENCE_ENDS if each in longest)
    at = max((end for end in ends if end > least and is_border(text, at=end)), default=len(of_lines))
    return text[:at]


def suffix_of_sentences(text: str, *, most: int) -> str:
    """Return an end that begins with a line or a sentence, whichever begins earlier, or the longest end."""
    longest = suffix(text, most=most)
    first = len(text) - len(longest)
    of_lines = len(text) - len(suffix_of_lines(text, most=most))
    last = of_lines if of_lines > first else first + (len(longest) + 1) // 2
    begins = (text.find(each, first) + len(each) for each in _SENTENCE_ENDS if each in longest)
    at = min((begin for begin in begins if begin < last and is_border(text, at=begin)), default=of_lines)
    return text[at:]
