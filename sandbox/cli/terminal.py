"""The two streams of this process, as commands write to them.

Whatever the locale, nothing that is written can fail for its characters: JSON is UTF-8 always, and other text has what
an encoding lacks written out. A reader who went away (`| head`) ends the command quietly, by `ReaderGone`; it is no
`OSError`, because typer has ideas of its own about those. What cannot be told on stderr is not told.

Typer prints its help and rich draws its tables on `sys.stdout`; that stands for the same way out.
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
    """Nobody reads our stdout any more."""


class Unwritable(Exception):
    """Stdout takes nothing: a full disk, mostly."""


def prepare_streams() -> None:
    """Make the standard descriptors safe to use, also where the caller closed some of them.

    A closed one would be given to the next socket or file that is opened, and a box would be talked to on stdout.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = cast(TextIO, _WayOut(_prepared(sys.stdout)))
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # for as long as the process lives
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]  # for typer, which prints its help
    return stream


class _WayOut:
    """Stdout for those who write to it themselves: all they know of it, but that it fails as `show` does. Nothing is
    kept back in it, and nobody gets at what is below."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        show(text)
        return len(text)

    def flush(self) -> None:
        """Everything is written by now."""

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def show(text: str) -> None:
    """Write to stdout."""
    show_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def show_document(text: str) -> None:
    """Write JSON to stdout: UTF-8 whatever the locale, and a line break."""
    show_bytes(f"{text}\n".encode("utf-8", "replace"))


def tell(text: str) -> None:
    """Write to stderr, after what was shown before."""
    with suppress(OSError, ValueError):
        _write_all(sys.stderr, text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))


def stages(*, is_silent: bool) -> Callable[[str], None]:
    """Tells how something long goes, line by line; whoever reads JSON just waits for it."""
    return (lambda _: None) if is_silent else (lambda stage: tell(f"{stage}\n"))


def show_bytes(data: bytes) -> None:
    """Write to stdout, as it is."""
    try:
        _write_all(sys.stdout, data)
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise Unwritable(f"the output cannot be written: {error.strerror}") from None


def _write_all(stream: TextIO, data: bytes) -> None:
    """Past Python's own layers: those lose the rest of a partial write when they do not buffer (PYTHONUNBUFFERED), and
    give up on a terminal that another program has left non-blocking."""
    descriptor, rest = stream.fileno(), memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it."""
    with suppress(ValueError, AttributeError):
        return stream.isatty()
    return False


def is_drawn_on(stream: TextIO) -> bool:
    """Whether it is a terminal that takes sequences."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """The same, of a user who wants colours."""
    return is_drawn_on(stream) and not os.environ.get("NO_COLOR")


def painted(text: str, colour: Colour, *, on: TextIO) -> str:
    """The text in a colour, where there are colours; each line for itself."""
    if not has_colours(on):
        return text
    return "\n".join(f"\x1b[{_CODES[colour]}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def glyph(symbol: str, *, plain: str, on: TextIO) -> str:
    """The symbol, or its plain form where the stream's encoding lacks it."""
    try:
        symbol.encode(on.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return plain
    return symbol
