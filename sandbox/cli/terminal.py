"""The two output streams of this process, text that is safe to print on them, and figures as people read them.

No character can make a write fail, whatever the locale: JSON is always UTF-8, and other text is escaped where the
encoding lacks a character. A reader who went away (`| head`) ends the command quietly by `ReaderGone`, which is not an
`OSError` because typer handles those itself. Text that cannot be written to stderr is dropped.

Typer prints help and rich draws tables on `sys.stdout`, which this module replaces with the same writer.

A tool's text may hold sequences that move the cursor, change the window's title or paste, and characters that mislead:
bidirectional overrides reorder a line, and zero-width characters are invisible. `visible` writes each such character as
`\\u001b`, which is also JSON's form, so that JSON stays the same JSON. Line breaks and tabs stay, `\\r\\n` becomes
`\\n`, and letters of every script keep their marks and joiners. A terminal and a file receive the same text, except
for lines that a tool overwrites while a terminal shows them.
"""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, TextIO, cast

Colour = Literal["red", "green", "yellow", "dim", "bold"]

_CODES: Final[dict[Colour, str]] = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class ReaderGone(Exception):
    """The reader of stdout closed it."""


class Unwritable(Exception):
    """Stdout accepts no data, usually because of a full disk."""


def prepare_streams() -> None:
    """Make the standard descriptors safe to use, even if the caller closed some of them.

    The next socket or file would get the number of a closed one, and a box would receive what is meant for stdout.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = cast(TextIO, _WayOut(_prepared(sys.stdout)))
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # for the lifetime of the process
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]  # for typer, which prints its help
    return stream


class _WayOut:
    """Stdout for libraries that write to it directly: unbuffered, with the errors of `show`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        show(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is immediate."""

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def show(text: str) -> None:
    """Write to stdout."""
    show_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def show_document(text: str) -> None:
    """Write JSON and a line break to stdout, in UTF-8 whatever the locale."""
    show_bytes(f"{text}\n".encode("utf-8", "replace"))


def tell(text: str) -> None:
    """Write to stderr, after everything that `show` wrote."""
    with suppress(OSError, ValueError):
        _write_all(sys.stderr, text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))


def stages(*, is_silent: bool) -> Callable[[str], None]:
    """Return a callback that prints the stages of a long operation, or nothing for readers of JSON."""
    return (lambda _: None) if is_silent else (lambda stage: tell(f"{stage}\n"))


def show_bytes(data: bytes) -> None:
    """Write raw bytes to stdout."""
    try:
        _write_all(sys.stdout, data)
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise Unwritable(f"the output cannot be written: {error.strerror}") from None


def _write_all(stream: TextIO, data: bytes) -> None:
    """Write without Python's own layers.

    Unbuffered (PYTHONUNBUFFERED) they lose the rest of a partial write, and they give up on a terminal that another
    program left non-blocking.
    """
    descriptor, rest = stream.fileno(), memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal."""
    with suppress(ValueError, AttributeError):
        return stream.isatty()
    return False


def is_drawn_on(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that understands escape sequences."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Return whether the stream is such a terminal and the user wants colours."""
    return is_drawn_on(stream) and not os.environ.get("NO_COLOR")


def painted(text: str, colour: Colour, *, on: TextIO) -> str:
    """Colour each line of the text if the stream has colours."""
    if not has_colours(on):
        return text
    return "\n".join(f"\x1b[{_CODES[colour]}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def glyph(symbol: str, *, plain: str, on: TextIO) -> str:
    """Return the symbol, or its plain form if the stream's encoding lacks it."""
    try:
        symbol.encode(on.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return plain
    return symbol


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
        from sandbox.outputs.terminal import Terminal

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
