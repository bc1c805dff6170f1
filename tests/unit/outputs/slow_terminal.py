"""A plain reference for `terminal`: the text that a terminal shows, read a single character at a time."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = (
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]PX^_][^\x00\x07\x1b\r\n]{0,2048}(?:\x07|\x1b\\)|[ -/]{1,4}[0-~]|[0-~])?"
)
_UNFINISHED: Final = re.compile(
    r"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x00\x07\x1b\r\n]{0,2048}\x1b?|[ -/]{1,4})?|\r)\Z"
)
_PART: Final = re.compile(rf"{_SEQUENCE}|\r?\n|.")
_MOVE: Final = re.compile(r"\x1b\[([0-9]{0,4})([CDGK])")


def read_slowly(text: str) -> str:
    """Return the visible text of a whole output with short lines."""
    screen = _Screen()
    for part in _PART.findall(_UNFINISHED.sub("", text)):
        if part.startswith("\x1b"):
            screen.follow(part)
        elif part.endswith("\n"):
            screen.end_line(part)
        else:
            screen.put(part)
    return screen.seen()


class _Screen:
    """Finished lines, and the cells of the current line."""

    def __init__(self) -> None:
        self._ended = ""
        self._cells: list[str] = []
        self._column = 0

    def seen(self) -> str:
        return self._ended + "".join(self._cells)

    def end_line(self, line_break: str) -> None:
        self._ended = self.seen() + line_break
        self._cells, self._column = [], 0

    def put(self, character: str) -> None:
        if character == "\r":
            self._cells = self._cells if "".join(self._cells).strip(" ") else []
            self._column = 0
        elif character == "\b":
            self._go_to(self._column - 1)
        else:
            self._cells[self._column : self._column + 1] = [character]
            self._column += 1

    def follow(self, sequence: str) -> None:
        move = _MOVE.fullmatch(sequence)
        if move is None:
            return
        count = int(move[1] or 0)
        if move[2] == "K":
            self._erase(count)
        elif move[2] == "G":
            self._go_to(max(count, 1) - 1)
        else:
            self._go_to(self._column + max(count, 1) * (1 if move[2] == "C" else -1))

    def _go_to(self, column: int) -> None:
        self._column = max(column, 0)
        self._cells += " " * (self._column - len(self._cells))

    def _erase(self, which: int) -> None:
        if which in (0, 2):
            del self._cells[self._column :]
        if which == 1:
            self._cells[: self._column + 1] = " " * (self._column + 1)
        if which == 2:
            self._cells[: self._column] = " " * self._column
