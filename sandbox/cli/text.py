"""Make foreign text safe to show: no text can drive a terminal or hide characters from the reader.

A tool's text may hold sequences that move the cursor, change the window's title, paste, or mislead: bidirectional
overrides show a line in another order, and zero-width characters are invisible. The module writes each such character
as `\u001b`, which is JSON's form too, so that JSON stays the same JSON. Line breaks and tabs stay, `\r\n` becomes `\n`,
and letters of every script keep their marks and joiners.

A terminal and a file get the same text, except for lines that are overwritten while a person watches. `--json` is the
exact form.
"""

from __future__ import annotations

import re
from typing import Final

from sandbox.outputs.terminal import Terminal

_BEGIN_AGAIN: Final = "\r\x1b[K"
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except line feed and tab
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or reordering
    "\ud800-\udfff\U000e0000-\U000e007f]"  # half characters, and tags
)


def visible(text: str) -> str:
    """Return the text with every control, invisible and reordering character escaped."""
    return _UNSAFE.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(text: str, *, most: int = 300) -> str:
    """Return the same on one line of bounded length."""
    line = " ".join(visible(text[: 2 * most]).split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1]}…"


def _written_out(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class SeenPieces:
    """Show text that comes in pieces as a terminal would: without colours, and only the last state of an overwritten
    line.

    A terminal starts such a line again. Other streams cannot take anything back, so the line is written when it has
    ended.
    """

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self._terminal = Terminal()
        self._shown = ""  # the unfinished line

    def feed(self, text: str) -> str:
        """Return the text to write now."""
        settled = visible(self._terminal.feed(text))
        return self._written(settled, visible(self._terminal.rest()))

    def end(self) -> str:
        """Return the text that was held back."""
        return self._written(visible(self._terminal.rest()), "")

    def _written(self, settled: str, rest: str) -> str:
        shown, whole = self._shown, settled + rest
        is_same = whole.startswith(shown)
        if not (is_same or settled or self._is_live):
            return ""
        self._shown = rest
        if is_same:
            return whole[len(shown) :]
        return _BEGIN_AGAIN + whole if self._is_live else f"\n{whole}"


_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def with_note(word: str, note: str) -> str:
    """Return the word with its note: `watcher: the engine's clock`."""
    return f"{word}: {note}" if note else word


def rounded_seconds(seconds: float) -> str:
    """Format a duration: `6.3 ms`, `120 ms`, `1.01 s`, `2 min 5 s`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def rounded_bytes(size: float) -> str:
    """Format a size: `512 B`, `4.2 MiB`, `512 MiB`."""
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f} {unit}" if size < 99.95 and size != int(size) else f"{size:.0f} {unit}"


def limit_figure(name: str | None, value: object, *, exact: bool, unit: object = None) -> str:
    """Format a value of a limit in the limit's unit, or in the given one, or as it is."""
    if unit is not None:
        return f"{value} {unit}"
    from sandbox.policy import Limits, format_bytes, format_seconds
    from sandbox.policy.quantities import Unit

    field = Limits.model_fields.get(name or "")
    if field is None or isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if Unit.SECONDS in field.metadata:
        return format_seconds(value) if exact else rounded_seconds(value)
    if Unit.BYTES in field.metadata:
        return format_bytes(int(value)) if exact else rounded_bytes(value)
    return f"{value:.0f}"


def rounded_age(seconds: float) -> str:
    """Format an age: `just now`, `5 min ago`, `3 h ago`, `12 d ago`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
