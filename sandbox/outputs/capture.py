"""Capture one stream of a tool, of any length, in bounded memory.

A capture keeps what shaping can still need: the first and the last `shown` characters (and one more of each, so that a
cut can see what it would separate), the last line, and the highlighted lines between, never more than three times
`shown` in all. JSON that is not too long is kept whole, because half of it is useless. A printed type is rendered as a
terminal would show it, so overwritten text is not kept. Bytes past `limit` are counted and dropped; the policy decides
what follows, and `over_limit` reports it. All other bytes also go to `spill`, in order and unchanged.

The capture decodes bytes as they come. A sequence that the border of a chunk splits waits for the rest; invalid UTF-8
becomes U+FFFD. No cut falls inside a sequence.

Most calls print a short line or nothing. So a capture holds the first bytes as they came, and builds the machinery for
long streams only when more bytes arrive than it holds, or when the text is not plain.

`shape` and `text` may be asked at any time, also in the middle of the stream, and leave the capture as it was.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Callable
from copy import copy
from io import StringIO
from typing import Final

from sandbox.outcome import Shaped
from sandbox.outputs.boundaries import prefix
from sandbox.outputs.shapes import STDOUT_TYPE, shape_for
from sandbox.outputs.shaping import nothing, shape_ends, unchanged
from sandbox.outputs.terminal import Terminal, is_plain
from sandbox.outputs.text_ends import TextEnds

_MAX_HELD: Final = 1024
_MAX_SLICE: Final = 64 * 1024
_BROKEN: Final = "\ufffd"
_WRITTEN_BROKEN: Final = _BROKEN.encode()

ByteSink = Callable[[bytes], None]
"""Takes every byte of a stream up to the limit, in order."""


class Capture:
    """A stream, fed in chunks; shows up to `shown` characters and keeps nothing past `limit` bytes."""

    def __init__(
        self, *, shown: int, limit: int, output_type: str = STDOUT_TYPE, spill: ByteSink | None = None
    ) -> None:
        if shown < 0 or limit < 0:
            raise ValueError(f"shown and limit are 0 or more, not {shown} and {limit}")
        self._type = output_type
        self._shown = shown
        self._limit = limit
        self._spill = spill
        self._max_held = min(_MAX_HELD, shown, limit)
        self._bytes = 0
        self._held = b""  # all bytes so far, as long as there is no reader
        self._reader: _StreamReader | None = None

    @property
    def bytes_fed(self) -> int:
        return self._bytes

    @property
    def characters(self) -> int:
        """All characters so far, shown or not; an unfinished sequence counts as the one it will be."""
        ends = self._ends()
        return ends.characters + ends.dropped

    @property
    def over_limit(self) -> bool:
        return self._bytes > self._limit

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream; a chunk of any size costs no more memory than a small one."""
        if self._reader is None:
            if self._bytes + len(data) <= self._max_held:
                self._bytes += len(data)
                self._held += data
                if self._spill is not None and data:
                    self._spill(data)
                return
            self._reader = self._new_reader()
        for start in range(0, len(data), _MAX_SLICE):
            self._take(self._reader, data[start : start + _MAX_SLICE])

    def text(self) -> str:
        """Return all that was kept: a short stream whole, otherwise the ends with the notice between them."""
        return self.shape().text

    def shape(self, *, budget: int | None = None, artifact: str | None = None) -> Shaped:
        """Return the stream fitted into the budget, or into `shown` if that is less."""
        if not self._bytes:
            return nothing(self._type)
        return self.shape_of_now(artifact=artifact)(self._shown if budget is None else budget)

    def shape_of_now(self, *, artifact: str | None = None) -> Callable[[int], Shaped]:
        """Return a function of the budget that shapes what has come until now, in any thread."""
        output_type, max_shown = self._type, self._shown
        if self._reader is None and self._held.isascii() and is_plain(text := self._held.decode("ascii")):

            def shape_plain(budget: int) -> Shaped:
                if len(text) <= budget:
                    return unchanged(text, output_type=output_type, artifact=artifact)
                ends = self._new_reader(text.encode()).ends()
                return shape_ends(ends, output_type=output_type, budget=budget, artifact=artifact)

            return shape_plain
        ends = self._ends()
        return lambda budget: shape_ends(
            ends, output_type=output_type, budget=min(budget, max_shown), artifact=artifact
        )

    def _take(self, reader: _StreamReader, data: bytes) -> None:
        room = max(self._limit - self._bytes, 0)
        self._bytes += len(data)
        within = data if len(data) <= room else data[:room]
        if within:
            if self._spill is not None:
                self._spill(within)
            reader.feed(within)
        if len(data) > room:
            reader.drop(data[room:])

    def _ends(self) -> TextEnds:
        return (self._reader or self._new_reader()).ends()

    def _new_reader(self, held: bytes | None = None) -> _StreamReader:
        reader = _StreamReader(shown=self._shown, output_type=self._type)
        reader.feed(self._held if held is None else held)
        return reader


class _StreamReader:
    """The text of a stream: decoded, rendered, and kept as far as shaping can need it."""

    def __init__(self, *, shown: int, output_type: str) -> None:
        shape = shape_for(output_type)
        self._max_head = max(shown, shape.kept) + 1
        self._terminal = Terminal() if shape.is_printed else None
        self._highlighter = shape.highlighter()
        self._kept = 0
        self._dropped = 0
        self._newlines = 0
        self._undecoded = b""  # the beginning of a sequence, 3 bytes at most
        self._is_over_limit = False
        self._has_replacements = False
        self._first_dropped = ""
        self._head = StringIO()
        self._tail = _Tail(size=shown + 1)

    def feed(self, data: bytes) -> None:
        """Keep the next bytes within the limit."""
        text = self._decode(data)
        self._keep(text if self._terminal is None else self._terminal.feed(text))

    def drop(self, data: bytes) -> None:
        """Count the next bytes, which are over the limit."""
        self._is_over_limit = True
        text = self._decode(data)
        self._first_dropped = self._first_dropped or text[:1]
        self._dropped += len(text)

    def ends(self) -> TextEnds:
        """Return what is known of the text now."""
        head, tail = self._head.getvalue(), self._tail.text()
        is_whole = self._kept == len(head) + len(tail)
        last, is_rendered = self._last_line()
        end = head + tail + last if is_whole else tail + last
        kept_end = self._without_split(end)
        lost = end[len(kept_end) :]
        dropped = self._dropped + len(lost) + bool(self._undecoded and self._is_over_limit)
        has_replacements = self._has_replacements or bool(self._undecoded)
        highlights = self._highlighter.highlights()
        if is_whole:
            return TextEnds.whole(
                kept_end,
                dropped=dropped,
                highlights=highlights,
                is_rendered=is_rendered,
                has_replacements=has_replacements,
            )
        return TextEnds(
            head=head,
            tail=kept_end,
            characters=self._kept + len(last) - len(lost),
            newlines=self._newlines + last.count("\n") - lost.count("\n"),
            dropped=dropped,
            highlights=highlights,
            is_rendered=is_rendered,
            has_replacements=has_replacements,
        )

    def _decode(self, data: bytes) -> str:
        data = self._undecoded + data if self._undecoded else data
        text, used = utf_8_decode(data, "replace")
        self._undecoded = data[used:]
        if not text.isascii() and _BROKEN in text:
            self._has_replacements |= text.count(_BROKEN) != data.count(_WRITTEN_BROKEN)
        return text

    def _keep(self, text: str) -> None:
        room = max(self._max_head - self._kept, 0)
        newlines = text.count("\n")
        self._kept += len(text)
        self._newlines += newlines
        self._highlighter.feed(text, newlines=newlines)
        if room:
            self._head.write(text[:room])
            text = text[room:]
        self._tail.add(text)

    def _last_line(self) -> tuple[str, bool]:
        """Return the text that can still change, as it stands, and whether rendering changed anything."""
        unfinished = _BROKEN if self._undecoded and not self._is_over_limit else ""
        if self._terminal is None:
            return unfinished, False
        terminal = copy(self._terminal)
        return terminal.feed(unfinished) + terminal.rest(), terminal.has_changed

    def _without_split(self, end: str) -> str:
        """Return the end without its last characters if the first dropped character belongs to them."""
        return prefix(end + self._first_dropped, most=len(end)) if self._first_dropped else end


class _Tail:
    """The last `size` characters of what is added, at a constant cost for each."""

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._older = ""
        self._newer = StringIO()

    def add(self, text: str) -> None:
        if len(text) < self._size:
            self._newer.write(text)
            text = self._newer.getvalue() if self._newer.tell() >= self._size else ""
        if text:
            self._older = text[-self._size :]
            self._newer = StringIO()

    def text(self) -> str:
        """Return these characters."""
        newer = self._newer.getvalue()
        return self._older[max(len(self._older) + len(newer) - self._size, 0) :] + newer
