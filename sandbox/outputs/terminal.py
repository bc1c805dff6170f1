"""Render printed text as a terminal would show it.

A progress bar is one line written a thousand times with carriage returns between, and a coloured word is the word
between escape sequences. A reader without a terminal is shown what a person would have seen:

* a carriage return goes back to the beginning of the line, a backspace one column; the text that follows replaces
  what was there, and the rest of the line stays, as on a screen;
* sequences that move within the line (`CSI C`, `D`, `G`) or erase in it (`CSI K`) do so; all others (colours, titles,
  links, movements to other lines, clearing the screen) leave nothing. So does an escape character without a sequence;
* line breaks stay as they are, `\\n` or `\\r\\n`: line numbers here are those of the exact text.

A text without escape, backspace, and carriage returns other than in `\\r\\n` is unchanged. Rendered text is such a
text, so rendering again changes nothing. Every other control character is passed on.

The text may come in pieces of any size, and the pieces do not matter. A line that is longer than `MAX_LINE_CHARACTERS`
wraps: its beginning can no longer be rewritten. A sequence that is longer than any real one is text after its first two
characters. So the held text is bounded. Every character counts as one column: a screen gives two to a Chinese character
and none to a combining mark, which differs only if a shorter text of other characters was written over it, and would
cost a look at each of them. Following moves is slow, so after `MAX_MOVES` backspaces and sequences they are dropped
without being followed.
"""

from __future__ import annotations

import re
from typing import Final

MAX_LINE_CHARACTERS: Final = 16384
MAX_MOVES: Final = 200_000

_STRING: Final = r"[\]PX^_][^\x00\x07\x1b\r\n]{0,2048}"
_CSI: Final = r"\[[0-?]{0,64}[ -/]{0,8}"
_MOVING: Final = r"\[([0-9]{0,4})([CDGK])"
_OTHER: Final = rf"{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\)|[ -/]{{1,4}}[0-~]|[0-~]|"
_COLOUR: Final = r"\[[0-9;]{0,64}m"
_WITHOUT_EFFECT: Final = re.compile(rf"\x1b(?:{_COLOUR}|(?!{_MOVING})(?:{_OTHER}))")
"""Most are colours, and where they are tried first, a text full of them is read in half of the time."""
_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]{0,64}m")
_SAMPLE: Final = 512
_FEW: Final = 6
_UNFINISHED: Final = re.compile(rf"\x1b(?:{_CSI}|{_STRING}\x1b?|[ -/]{{1,4}})?\Z")
_MAX_SEQUENCE_LENGTH: Final = 2100
_MOVE: Final = re.compile(rf"\x1b{_MOVING}")
_RETURN: Final = re.compile(r"\r(?!\n)")
_STEP: Final = re.compile(r"\r|\x08+|\x1b\[[0-9]{0,4}[CDGK]|[^\x1b\r\x08]+")


def is_plain(text: str) -> bool:
    """Return whether a terminal would show a text as it is."""
    return "\x1b" not in text and "\b" not in text and "\r" not in text


def as_seen(text: str) -> str:
    """Return a whole text as a terminal would show it."""
    terminal = Terminal()
    return terminal.feed(text) + terminal.rest()


class Terminal:
    """Reads one text; `feed` gives what cannot change any more, `rest` what still could."""

    def __init__(self) -> None:
        self._unread = ""  # a sequence that has only begun, or a carriage return: a line break may follow
        self._line = ""  # up to the column that is written to next
        self._before = ""  # the line before it was rewritten: seen where the new line is shorter
        self._moves_left = MAX_MOVES
        self._has_changed = False

    @property
    def has_changed(self) -> bool:
        """Whether anything was left out or written over, as a sequence is that has only begun."""
        return self._has_changed or bool(self._unread)

    def feed(self, text: str) -> str:
        """Return the lines that are complete now."""
        text = self._unread + text if self._unread else text
        self._unread = ""
        if "\x1b" not in text and "\r" not in text and "\b" not in text and not self._before:
            return self._append(text)
        end = _end_of_whole(text)
        text, self._unread = text[:end], text[end:]
        text = self._without_sequences(text)
        if not self._before and not _moves(text):
            return self._append(text)
        self._has_changed = True
        return self._feed_lines(text)

    def rest(self) -> str:
        """Return the last line as it stands; this leaves the terminal as it was."""
        return self._line + self._before[len(self._line) :]

    def _without_sequences(self, text: str) -> str:
        """Return the text without sequences that have no effect on the line.

        A sequence stays if a carriage return before it would otherwise become part of a line break.
        """
        if "\x1b" not in text or ("\r" in text and "\r\x1b" in text):
            return text
        self._has_changed = True
        return _without_effectless(text)

    def _append(self, text: str) -> str:
        """Add text that does not move; return the complete lines of it and of the line before."""
        text = self._line + text if self._line else text
        end = text.rfind("\n") + 1
        end += max(len(text) - end - 1, 0) // MAX_LINE_CHARACTERS * MAX_LINE_CHARACTERS
        self._line = text[end:]
        if end:
            self._before = ""
        return text[:end]

    def _feed_lines(self, text: str) -> str:
        if "\n" not in text:
            return self._write(text)
        *lines, last = text.split("\n")
        settled = [self._end_line(line) for line in lines]
        settled.append(self._write(last))
        return "".join(settled)

    def _end_line(self, text: str) -> str:
        """Return the rest of one line and its break."""
        if not (self._line or self._before or "\x1b" in text or "\b" in text or "\r" in text[:-1]):
            return f"{text}\n"
        is_pair = text.endswith("\r")
        seen = self._write(text[:-1] if is_pair else text) + self.rest()
        self._line = self._before = ""
        return seen + ("\r\n" if is_pair else "\n")

    def _write(self, text: str) -> str:
        """Return a part of one line; returned is the beginning of the line, if it became too long."""
        if "\x1b" in text:
            text = _WITHOUT_EFFECT.sub("", text)
        if "\x1b" in text or "\b" in text:
            if self._moves_left:
                return "".join(self._step(step[0]) for step in _STEP.finditer(text))
            text = _MOVE.sub("", text).replace("\b", "")
        return self._append(text) if "\r" not in text else self._overwrite(text.split("\r"))

    def _overwrite(self, texts: list[str]) -> str:
        """Return the first goes on with the line, each of the others begins it again."""
        first, *others = texts
        settled = self._append(first)
        self._return()
        for other in self._visible(others):
            self._return()
            settled += self._append(other)
        return settled

    def _visible(self, texts: list[str]) -> list[str]:
        """Return the texts from the last of the longest on, which hides those before.

        Blanks may have hidden more than that, and then all texts stay.
        """
        lengths = list(map(len, texts))
        longest = max(lengths)
        last = len(texts) - 1 - lengths[::-1].index(longest)
        if longest > MAX_LINE_CHARACTERS or (longest < len(self._before) and not all(map(str.strip, texts[:last]))):
            return texts
        return texts[last:]

    def _step(self, step: str) -> str:
        if step[0] not in "\x1b\r\b":
            return self._append(step)
        if step == "\r":
            self._return()
        elif self._moves_left:
            self._move(step)
        return ""

    def _return(self) -> None:
        seen = self.rest()
        self._before, self._line = seen if seen.strip(" ") else "", ""  # blanks at the end of a line are not seen

    def _move(self, step: str) -> None:
        count, column = min(len(step), self._moves_left), len(self._line)
        move = _MOVE.fullmatch(step)
        self._moves_left -= 1 if move else count
        if move is None:
            return self._go_to(column - count)
        count = int(move[1] or 0)
        if move[2] == "K":
            return self._erase(count)
        steps = max(count, 1)
        return self._go_to({"C": column + steps, "D": column - steps, "G": steps - 1}[move[2]])

    def _go_to(self, column: int) -> None:
        seen = self.rest()
        self._line = seen[: max(column, 0)].ljust(min(column, MAX_LINE_CHARACTERS))[:MAX_LINE_CHARACTERS]
        self._before = seen

    def _erase(self, which: int) -> None:
        """Erase to the end of the line (0), to its beginning (1), or all of it (2); the column stays."""
        if which == 1:
            self._before = " " * (len(self._line) + 1) + self._before[len(self._line) + 1 :]
        elif which in (0, 2):
            self._before = ""
        if which in (1, 2):
            self._line = " " * len(self._line)


def _end_of_whole(text: str) -> int:
    """Return where what may only be read with what follows it begins."""
    if text.endswith("\r"):
        return len(text) - 1
    last = text.rfind("\x1b", 0, -1)  # that which is the very last character may be the end of a string
    unfinished = _UNFINISHED.search(text, max(last, len(text) - _MAX_SEQUENCE_LENGTH, 0))
    return unfinished.start() if unfinished else len(text)


def _without_effectless(text: str) -> str:
    """Return the text without sequences that have no effect on the line.

    A few colours are most of the sequences in most texts: they are replaced by NUL one by one and deleted all at once,
    which is twice as fast as looking at each place. A NUL ends the text before it as an escape does, and nothing is
    joined before all other sequences are removed.
    """
    colours = set(_COLOURS.findall(text[:_SAMPLE].encode("utf-8", "replace")))
    if not 0 < len(colours) <= _FEW or "\0" in text:
        return _WITHOUT_EFFECT.sub("", text)
    data = text.encode("utf-8", "surrogatepass")
    for colour in colours:
        data = data.replace(colour, bytes(len(colour)))
    if b"\x1b" in data:
        data = _WITHOUT_EFFECT.sub("", data.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
    return data.translate(None, b"\0").decode("utf-8", "surrogatepass")


def _moves(text: str) -> bool:
    """Return whether anything in it is to be written elsewhere than at the end of a line."""
    return "\x1b" in text or "\b" in text or ("\r" in text and _RETURN.search(text) is not None)
