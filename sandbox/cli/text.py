"""Text of tools made safe to print, and measured figures as people read them.

A tool's text may hold sequences that move the cursor, change the window's title or paste, and characters that mislead:
bidirectional overrides reorder a line, and zero-width characters are invisible. `visible` writes each such character as
`\\u001b`, which is also JSON's form, so that JSON stays the same JSON. Line breaks and tabs stay, `\\r\\n` becomes
`\\n`, and letters of every script keep their marks and joiners.

A terminal and a file receive the same text, except for lines that a tool overwrites while a terminal shows them.
`--json` is exact.
"""

from __future__ import annotations

import re
from typing import Final

from sandbox.outputs.terminal import Terminal

_BEGIN_AGAIN: Final = "\r\x1b[K"
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, all but line feed and tab
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or reordering
    "\ud800-\udfff\U000e0000-\U000e007f]"  # half characters, and tags
)


def visible(text: str) -> str:
    """Return the text with every character escaped that could act, mislead or hide."""
    return _UNSAFE.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(text: str, *, most: int = 300) -> str:
    """Return the text on one line of at most `most` characters."""
    line = " ".join(visible(text[: 2 * most]).split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1]}…"


def _written_out(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class SeenPieces:
    """Escape text that comes in pieces, without colours, and keep track of overwritten lines.

    A terminal redraws an overwritten line. Elsewhere the line is written again when it has ended.
    """

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self._terminal = Terminal()
        self._shown = ""  # the shown part of the unfinished line

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
    """Return `cgroup`, or `watcher: the engine's clock` if a note explains the word."""
    return f"{word}: {note}" if note else word


def rounded_seconds(seconds: float) -> str:
    """Return `6.3 ms`, `120 ms`, `1.01 s` or `2 min 5 s`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def rounded_bytes(size: float) -> str:
    """Return `512 B`, `4.2 MiB` or `512 MiB`."""
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f} {unit}" if size < 99.95 and size != int(size) else f"{size:.0f} {unit}"


def limit_figure(name: str | None, value: object, *, exact: bool, unit: object = None) -> str:
    """Return a value of the named limit in `unit` or the limit's own unit; other values stay as they are."""
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
    """Return `just now`, `5 min ago`, `3 h ago` or `12 d ago`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
