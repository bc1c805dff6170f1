"""The output streams of this process.

No locale can make writing fail for a character: JSON is always UTF-8, and other text escapes what the encoding lacks. A
reader who goes away (`| head`) ends the command quietly, by `ReaderGone`, which is no `OSError` because typer handles
those itself. Errors of writing to stderr are ignored.

Typer prints its help and rich draws its tables on `sys.stdout`, which this module replaces by a stream with the same
rules.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, TextIO, cast

Colour = Literal["red", "green", "yellow", "dim", "bold"]

_CODES: Final[dict[Colour, str]] = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class ReaderGone(Exception):
    """The reader of stdout is gone."""


class Unwritable(Exception):
    """stdout cannot be written, usually because a disk is full."""


def prepare_streams() -> None:
    """Make the standard descriptors safe to use, even if the caller closed some of them.

    The next socket or file would get the number of a closed descriptor, and a box would write to stdout.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = cast(TextIO, _WayOut(_prepared(sys.stdout)))
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # the replacements stay open while the process lives
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]  # for typer, which prints its help
    return stream


class _WayOut:
    """The stdout of libraries that write themselves. Writing fails as `show` does, is never buffered, and hides the
    stream below."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        show(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: everything is written already."""

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def show(text: str) -> None:
    """Write to stdout."""
    show_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def show_document(text: str) -> None:
    """Write JSON to stdout, in UTF-8 for every locale, with a line break."""
    show_bytes(f"{text}\n".encode("utf-8", "replace"))


def tell(text: str) -> None:
    """Write to stderr, after everything that was written to stdout before."""
    with suppress(OSError, ValueError):
        _write_all(sys.stderr, text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))


def stages(*, is_silent: bool) -> Callable[[str], None]:
    """Return a function that reports the stages of long work line by line, or reports nothing to readers of JSON."""
    return (lambda _: None) if is_silent else (lambda stage: tell(f"{stage}\n"))


def show_bytes(data: bytes) -> None:
    """Write bytes to stdout."""
    try:
        _write_all(sys.stdout, data)
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise Unwritable(f"the output cannot be written: {error.strerror}") from None


def _write_all(stream: TextIO, data: bytes) -> None:
    """Write without Python's own layers, which lose the rest of a partial write when unbuffered (PYTHONUNBUFFERED), and
    give up on a terminal that another program has set to non-blocking."""
    descriptor, rest = stream.fileno(), memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def is_terminal(stream: TextIO) -> bool:
    """Return True if the stream is a terminal."""
    with suppress(ValueError, AttributeError):
        return stream.isatty()
    return False


def is_drawn_on(stream: TextIO) -> bool:
    """Return True if the stream is a terminal that understands escape sequences."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Return True if the stream is such a terminal and its user wants colours."""
    return is_drawn_on(stream) and not os.environ.get("NO_COLOR")


def painted(text: str, colour: Colour, *, on: TextIO) -> str:
    """Return the text with a colour on each line, if the stream has colours."""
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
