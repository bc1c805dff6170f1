"""Foreign text made safe to look at: nothing in it can drive a terminal, and nothing in it is hidden from the reader.

A tool's text may hold sequences that move the cursor, change the window's title, paste, or lie: bidirectional overrides
show a line in another order than it has, and zero-width characters hide in it. Each such character is written as
`\\u001b`, the form that JSON has for it too, so that JSON stays the same JSON. Line breaks and tabs stay, and `\\r\\n`
becomes `\\n`. So do letters of every script, with the marks and joiners that they need.

It does not depend on whether anybody looks: what is shown on a terminal and what goes into a file is the same text, but
for lines that are written over while they are watched. `--json` is the exact way.
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
    """The text with every character that could act, lie or hide written out."""
    return _UNSAFE.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(text: str, *, most: int = 300) -> str:
    """The same on one line of bounded length."""
    line = " ".join(visible(text[: 2 * most]).split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1]}…"


def _written_out(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class SeenPieces:
    """The same for text that comes in pieces, as a terminal would show it: without colours, and of a line that is
    written over the last state. Where somebody looks, such a line is begun again. Elsewhere nothing can be taken back,
    and it is written once more when it has ended."""

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self._terminal = Terminal()
        self._shown = ""  # of the line that has not ended

    def feed(self, text: str) -> str:
        """What is to be written now."""
        settled = visible(self._terminal.feed(text))
        return self._written(settled, visible(self._terminal.rest()))

    def end(self) -> str:
        """What was held back."""
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
    """`cgroup`, or `watcher: the engine's clock` where a note explains the word."""
    return f"{word}: {note}" if note else word


def rounded_seconds(seconds: float) -> str:
    """`6.3 ms`, `120 ms`, `1.01 s`, `2 min 5 s`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def rounded_bytes(size: float) -> str:
    """`512 B`, `4.2 MiB`, `512 MiB`."""
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f} {unit}" if size < 99.95 and size != int(size) else f"{size:.0f} {unit}"


def limit_figure(name: str | None, value: object, *, exact: bool, unit: object = None) -> str:
    """A value of the limit of that name in its unit, or in one that was told with it; as it is when there is none."""
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
    """`just now`, `5 min ago`, `3 h ago`, `12 d ago`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
