"""Foreign text made fit for a message: short, on one line, and unable to talk to a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

NAME_LENGTH = 64
NAMES_SHOWN = 20
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def excerpt(text: str, limit: int = 200) -> str:
    """Return at most `limit` characters of `text`; whatever is not printable is replaced one for one."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return printable(cut)


def printable(text: str) -> str:
    """Return the same number of characters, all of them printable."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _UNPRINTABLE for letter in text)


def name_list(names: Iterable[str]) -> str:
    """Return names for a message: each name is cut, and names beyond a limit are counted."""
    listed = [excerpt(name, NAME_LENGTH) for name in names]
    if len(listed) <= NAMES_SHOWN:
        return ", ".join(listed)
    return ", ".join(listed[:NAMES_SHOWN]) + f" and {len(listed) - NAMES_SHOWN} more"


_CUT: Final = "…"
_WIDE: Final = ("W", "F")
_NO_COLUMN: Final = ("Mn", "Me", "Cf")


def caret_picture(
    line: str, column: int, *, width: int, before: int, shown: Callable[[str], str] = printable
) -> tuple[str, str]:
    """Return at most `width` characters of a line, `before` of them before the column, and the blanks under a caret's
    place.

    The column is counted in characters, from 1; `shown` makes untrusted text fit for a message, piece by piece.
    """
    place = min(max(column - 1, 0), len(line))
    start = max(0, place - before)
    left, right = line[start:place].replace("\t", " "), line[place : start + width].replace("\t", " ")
    left = f"{_CUT}{left[1:]}" if start else left
    right = f"{right[:-1]}{_CUT}" if len(line) > start + width else right
    return shown(left) + shown(right), " " * columns(shown(left))


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in _NO_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
