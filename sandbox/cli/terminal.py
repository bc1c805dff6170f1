"""The two streams of this process, as commands write to them.

Whatever the locale, nothing that is written can fail for its characters: JSON is UTF-8 always, and other text has what
an encoding lacks written out. A reader who went away (`| head`) ends the command quietly, by `ReaderGone`; it is no
`OSError`, because typer has ideas of its own about those. What cannot be told on stderr is not told.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, Literal, TextIO

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
    sys.stdout = _prepared(sys.stdout)
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # for as long as the process lives
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace", line_buffering=False)  # type: ignore[attr-defined]
    return stream


def show(text: str) -> None:
    """Write to stdout."""
    _write_out(text)


def show_document(text: str) -> None:
    """Write JSON to stdout: UTF-8 whatever the locale, and a line break."""
    _write_out(f"{text}\n".encode("utf-8", "replace"))


def tell(text: str) -> None:
    """Write to stderr, after what was shown before."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _write_out(text: str | bytes) -> None:
    try:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        raise ReaderGone from None
    except OSError as error:
        _let_go_of_stdout()
        raise Unwritable(f"the output cannot be written: {error.strerror}") from None


def _let_go_of_stdout() -> None:
    """What is still buffered goes nowhere, so that Python does not try it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it."""
    with suppress(ValueError, AttributeError):
        return stream.isatty()
    return False


def painted(text: str, colour: Colour, *, on: TextIO) -> str:
    """The text in a colour where the stream is a terminal that has them; each line for itself."""
    if not text or not is_terminal(on) or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return "\n".join(f"\x1b[{_CODES[colour]}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def glyph(symbol: str, *, plain: str, on: TextIO) -> str:
    """The symbol, or its plain form where the stream's encoding lacks it."""
    try:
        symbol.encode(on.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return plain
    return symbol
