"""Capture: reads one stream of a tool, of any length, in bounded memory.

What is kept is what shaping can still need: the first and the last `shown` characters (and one more of each, so that
a cut can see what it would separate), never more than three times `shown` in all, the last line, and the marked lines
between. JSON that is not too long is kept as a whole: nothing can be made of half of it. A printed type is read as a
terminal would show it, so what was written over is not kept. Bytes past `limit` are counted and dropped; what to do
about them is for the policy to say, and `over_limit` tells. All others also go to `spill` as they come and exactly as
they were, for whoever keeps the whole.

Bytes are decoded as they come. A sequence that a chunk's border splits waits for the rest; what is not UTF-8 becomes
U+FFFD. Nothing is ever cut in bytes, so no other character can break.

`shape` and `text` may be asked at any time, also in the middle of the stream (a call that was killed has output too),
and leave the capture as it was.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Callable
from copy import copy
from io import StringIO
from typing import Final

from sandbox.outcome import Shaped
from sandbox.outputs.boundaries import prefix
from sandbox.outputs.shaping import STDOUT_TYPE, nothing, shape_ends, shape_for
from sandbox.outputs.terminal import Terminal
from sandbox.outputs.text_ends import TextEnds

_SLICE: Final = 64 * 1024
_BROKEN: Final = "\ufffd"
_WRITTEN_BROKEN: Final = _BROKEN.encode()

ByteSink = Callable[[bytes], None]
"""Gets every byte of a stream up to its limit, in order."""


class Capture:
    """One stream, fed in chunks; shows up to `shown` characters and keeps nothing past `limit` bytes."""

    def __init__(
        self, *, shown: int, limit: int, output_type: str = STDOUT_TYPE, spill: ByteSink | None = None
    ) -> None:
        if shown < 0 or limit < 0:
            raise ValueError(f"shown and limit are 0 or more, not {shown} and {limit}")
        form = shape_for(output_type)
        self._type = output_type
        self._shown = shown
        self._most_of_head = max(shown, form.kept) + 1
        self._limit = limit
        self._spill = spill
        self._terminal = Terminal() if form.is_printed else None
        self._marks = form.marks()
        self._bytes = 0
        self._kept = 0
        self._dropped = 0
        self._newlines = 0
        self._undecoded = b""  # the beginning of a sequence, 3 bytes at most
        self._is_mended = False
        self._first_dropped = ""
        self._head = StringIO()
        self._tail = _Tail(size=shown + 1)

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
        if len(data) <= _SLICE:
            self._take(data)
            return
        for start in range(0, len(data), _SLICE):
            self._take(data[start : start + _SLICE])

    def text(self) -> str:
        """All that was kept: the whole stream if it is short, otherwise its ends with the notice between them."""
        return self.shape().text

    def shape(self, *, budget: int | None = None, artifact: str | None = None) -> Shaped:
        """The stream fitted into the budget, or into `shown` if that is less."""
        if not self._bytes:
            return nothing(self._type)
        return self.shape_of_now(artifact=artifact)(self._shown if budget is None else budget)

    def shape_of_now(self, *, artifact: str | None = None) -> Callable[[int], Shaped]:
        """The same for any budget, of what has come until now, in any thread."""
        ends, output_type, most = self._ends(), self._type, self._shown
        return lambda budget: shape_ends(ends, output_type=output_type, budget=min(budget, most), artifact=artifact)

    def _take(self, data: bytes) -> None:
        room = max(self._limit - self._bytes, 0)
        self._bytes += len(data)
        within = data if len(data) <= room else data[:room]
        if within and self._spill is not None:
            self._spill(within)
        if within:
            text = self._decode(within)
            self._keep(text if self._terminal is None else self._terminal.feed(text))
        if len(data) > room:
            self._drop(self._decode(data[room:]))

    def _decode(self, data: bytes) -> str:
        data = self._undecoded + data if self._undecoded else data
        text, used = utf_8_decode(data, "replace")
        self._undecoded = data[used:]
        if not text.isascii() and _BROKEN in text:
            self._is_mended = self._is_mended or text.count(_BROKEN) != data.count(_WRITTEN_BROKEN)
        return text

    def _keep(self, text: str) -> None:
        room = max(self._most_of_head - self._kept, 0)
        newlines = text.count("\n")
        self._kept += len(text)
        self._newlines += newlines
        self._marks.feed(text, newlines=newlines)
        if room:
            self._head.write(text[:room])
            text = text[room:]
        self._tail.add(text)

    def _drop(self, text: str) -> None:
        self._first_dropped = self._first_dropped or text[:1]
        self._dropped += len(text)

    def _ends(self) -> TextEnds:
        head, tail = self._head.getvalue(), self._tail.text()
        is_whole = self._kept == len(head) + len(tail)
        last, is_read = self._last_line()
        end = head + tail + last if is_whole else tail + last
        kept_end = self._without_split(end)
        lost = end[len(kept_end) :]
        dropped = self._dropped + len(lost) + bool(self._undecoded and self.over_limit)
        is_mended = self._is_mended or bool(self._undecoded)
        if is_whole:
            return TextEnds.whole(
                kept_end, dropped=dropped, marks=self._marks.found(), is_read=is_read, is_mended=is_mended
            )
        return TextEnds(
            head=head,
            tail=kept_end,
            characters=self._kept + len(last) - len(lost),
            newlines=self._newlines + last.count("\n") - lost.count("\n"),
            dropped=dropped,
            marks=self._marks.found(),
            is_read=is_read,
            is_mended=is_mended,
        )

    def _last_line(self) -> tuple[str, bool]:
        """What of the text can still change, as it stands, and whether anything was changed in reading."""
        unfinished = _BROKEN if self._undecoded and not self.over_limit else ""
        if self._terminal is None:
            return unfinished, False
        terminal = copy(self._terminal)
        return terminal.feed(unfinished) + terminal.rest(), terminal.has_changed

    def _without_split(self, end: str) -> str:
        """The end without its last characters if the first dropped one belongs to them."""
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
        """What they are."""
        newer = self._newer.getvalue()
        return self._older[max(len(self._older) + len(newer) - self._size, 0) :] + newer
