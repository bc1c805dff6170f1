"""The flow of what calls send: output, items, reply and files, each at the pace of whoever takes it.

Output is paced per call. The runner may have `CREDIT` bytes of a call's output under way; the engine grants more as it
takes them, so a call that prints faster than its caller reads waits in its own pipe. A runner reads pipes in pieces and
empties them when a call ends, so it may go over by what pipes hold, and a box that goes over by more is ended. Files
have a pace of their own, in the same way.

What a call gives before its reply comes on one pipe with that. While more of it waits for its reader than should,
nothing more is read there: neither of what it gives, nor of the reply behind it.

What comes on a line (see `wire.lines`) needs no words for that: what is not wanted yet is not read. But it comes on
several pipes, with no order among them: so before an item is passed on, or a whole reply told, the pipes of what was
printed are emptied. Most calls print nothing, and then there is nothing to look for: the first that a call prints is
heard in the same turn of the event loop as what came after it, and whoever waits for a reply gets it in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from sandbox.errors import ProtocolError
from sandbox.protocol.frames import Chunk, Stream
from sandbox.protocol.message_writer import MessageWriter
from sandbox.protocol.running_call import RunningCall
from sandbox.protocols import OutputName

CREDIT: Final = 1 << 20
_GRANT_STEP: Final = CREDIT // 4
_ITEM_OVERHEAD: Final = 256
"""What an item costs beside its bytes."""
_MOST_UNTAKEN: Final = CREDIT + (4 << 20)
_MAX_WALLS: Final = 1 << 16
_STREAMS: Final[Mapping[OutputName, Stream]] = {"stdout": Stream.STDOUT, "stderr": Stream.STDERR}


class FlowControl:
    """What the calls of one session send; a call that sends more than it may is killed."""

    def __init__(self, voice: MessageWriter, *, kill: Callable[[RunningCall], None]) -> None:
        self._voice = voice
        self._kill = kill

    def grant(self, call: RunningCall, amount: int) -> None:
        """Let that much more of the call's output come; told to the runner in steps worth a message."""
        call.untaken -= amount
        if call.line is not None:
            if call.untaken < CREDIT:
                call.line.resume()
            return
        call.owed += amount
        if call.owed >= _GRANT_STEP and not call.ended.done():
            self._voice.say({"type": "grant", "id": call.id, "bytes": call.owed})
            call.owed = 0

    def grant_files(self, call: RunningCall, amount: int) -> None:
        """Let that much more come of the files that the call left."""
        call.files_untaken -= amount
        if amount and not call.ended.done():
            self._voice.say({"type": "grant", "id": call.id, "bytes": amount, "of": "files"})

    def take_chunk(self, call: RunningCall, chunk: Chunk) -> None:
        """Take what came by way of the runner."""
        if not chunk.data:
            raise ProtocolError("a box sent a chunk of no bytes")
        if chunk.stream is Stream.VALUE:
            self._take_value(call, chunk.data)
        elif chunk.stream is Stream.FILES:
            self._take_files(call, chunk.data)
        elif chunk.stream is Stream.WALLS:
            self._take_walls(call, chunk.data)
        elif chunk.stream is Stream.REQUEST:
            raise ProtocolError("a box sent a request")
        else:
            untaken = call.untaken + len(chunk.data)
            if untaken > _MOST_UNTAKEN:
                raise ProtocolError(f"a box sent {untaken} bytes of output that nobody had asked for")
            self._take_output(call, chunk.stream, chunk.data)

    def hear_output(self, call: RunningCall, name: OutputName, data: bytes) -> None:
        """Some of its output came on a line."""
        is_first, call.has_printed = not call.has_printed, True
        self._take_output(call, _STREAMS[name], data)
        if call.line is not None and call.untaken >= CREDIT:
            call.line.pause()
        elif call.line is not None and is_first and call.has_returned:
            call.line.empty_outputs()

    def hear_reply(self, call: RunningCall, data: bytes) -> None:
        """Some of its reply came on a line; what was printed before that was whole goes first."""
        self._take_value(call, data)
        if call.line is not None and not call.has_returned and call.has_whole_reply:
            if call.has_printed:
                call.line.empty_outputs()
            call.note_reply()

    def _take_output(self, call: RunningCall, stream: Stream, data: bytes) -> None:
        call.untaken += len(data)
        self.grant(call, call.take(stream, data))

    def _take_files(self, call: RunningCall, data: bytes) -> None:
        call.files_untaken += len(data)
        if call.files_untaken > _MOST_UNTAKEN:
            raise ProtocolError(f"a box sent {call.files_untaken} bytes of files that nobody had asked for")
        self.grant_files(call, call.take_files(data))

    def _take_walls(self, call: RunningCall, data: bytes) -> None:
        """One record, in one piece: what follows it would be another's word."""
        if call.walls:
            raise ProtocolError("a box described the walls of a call twice")
        if len(data) > _MAX_WALLS:
            raise ProtocolError("a box described its walls without end")
        call.walls += data

    def _take_value(self, call: RunningCall, data: bytes) -> None:
        call.value += data
        if call.items or call.begins_with_item:
            self._take_items(call)
        if call.has_too_much and call.cut_what_is_too_much():
            self._kill(call)

    def _take_items(self, call: RunningCall) -> None:
        for item in call.split_items():
            if call.take_item is not None:
                self._hear_what_was_printed(call)
                size = len(item) + _ITEM_OVERHEAD
                call.items_untaken += size
                call.take_item(item, partial(self._grant_item, call, size))
        self._hold(call, call.items_untaken >= CREDIT)

    def _hear_what_was_printed(self, call: RunningCall) -> None:
        """Before what came later on another pipe; unless more is under way than is wanted."""
        if call.line is not None and call.untaken < CREDIT:
            call.line.empty_outputs()

    def _grant_item(self, call: RunningCall, size: int) -> None:
        """An item was taken."""
        call.items_untaken -= size
        if call.items_untaken < CREDIT // 2:
            self._hold(call, False)

    def _hold(self, call: RunningCall, is_held: bool) -> None:  # noqa: FBT001  (the state that it is to be in)
        """Leave what a call gives where it is, or go on: it is worth a message only where nobody keeps up."""
        if call.is_held == is_held or call.ended.done():
            return
        call.is_held = is_held
        if call.line is None:
            self._voice.say({"type": "hold", "id": call.id, "on": is_held})
        elif is_held:
            call.line.pause_reply()
        else:
            call.line.resume_reply()
