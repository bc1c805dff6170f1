"""Flow control: the output, items, reply and files of calls, each read at the pace of its reader.

Output is paced per call. The runner may have `CREDIT` bytes of a call's output under way, and the engine grants more as
it takes them. A call that prints faster than its caller reads therefore waits in its own pipe. A runner reads pipes in
pieces and empties them when a call ends, so it may exceed the credit by the content of pipes; a box that exceeds it by
more is ended. Files have a separate credit.

The items of a generator share a pipe with the reply. While too many items wait for their reader, the engine reads
nothing more from that pipe, neither items nor the reply behind them.

Direct pipes (see `direct_pipes`) need no messages for that: the engine does not read what it does not want yet. But
several pipes have no order among them, so the engine empties the pipes of the outputs before it passes on an item or
reports a whole reply. Most calls print nothing, and then there is nothing to empty: the event loop delivers the first
output of a call in the same turn as what came after it, and the waiter for the reply runs in the next turn.
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
"""The cost of an item, in addition to its bytes."""
_MAX_UNTAKEN: Final = CREDIT + (4 << 20)
_MAX_WALLS: Final = 1 << 16
_STREAMS: Final[Mapping[OutputName, Stream]] = {"stdout": Stream.STDOUT, "stderr": Stream.STDERR}


class FlowControl:
    """Reads what the calls of one session send. A call that sends too much is killed."""

    def __init__(self, writer: MessageWriter, *, kill: Callable[[RunningCall], None]) -> None:
        self._writer = writer
        self._kill = kill

    def grant(self, call: RunningCall, amount: int) -> None:
        """Let more of the call's output come. The runner hears of that in steps that are worth a message."""
        call.untaken -= amount
        if call.pipes is not None:
            if call.untaken < CREDIT:
                call.pipes.resume()
            return
        call.owed += amount
        if call.owed >= _GRANT_STEP and not call.ended.done():
            self._writer.send({"type": "grant", "id": call.id, "bytes": call.owed})
            call.owed = 0

    def grant_files(self, call: RunningCall, amount: int) -> None:
        """Let more of the call's files come."""
        call.files_untaken -= amount
        if amount and not call.ended.done():
            self._writer.send({"type": "grant", "id": call.id, "bytes": amount, "of": "files"})

    def take_chunk(self, call: RunningCall, chunk: Chunk) -> None:
        """Take a chunk that came over the runner."""
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
            if untaken > _MAX_UNTAKEN:
                raise ProtocolError(f"a box sent {untaken} bytes of output beyond its credit")
            self._keep_output(call, chunk.stream, chunk.data)

    def take_output(self, call: RunningCall, name: OutputName, data: bytes) -> None:
        """Take output that came over direct pipes."""
        is_first, call.has_printed = not call.has_printed, True
        self._keep_output(call, _STREAMS[name], data)
        if call.pipes is not None and call.untaken >= CREDIT:
            call.pipes.pause()
        elif call.pipes is not None and is_first and call.has_returned:
            call.pipes.empty_outputs()

    def take_reply(self, call: RunningCall, data: bytes) -> None:
        """Take a part of the reply that came over direct pipes. Earlier output goes first."""
        self._take_value(call, data)
        if call.pipes is not None and not call.has_returned and call.has_whole_reply:
            if call.has_printed:
                call.pipes.empty_outputs()
            call.note_reply()

    def _keep_output(self, call: RunningCall, stream: Stream, data: bytes) -> None:
        call.untaken += len(data)
        self.grant(call, call.take(stream, data))

    def _take_files(self, call: RunningCall, data: bytes) -> None:
        call.files_untaken += len(data)
        if call.files_untaken > _MAX_UNTAKEN:
            raise ProtocolError(f"a box sent {call.files_untaken} bytes of files beyond its credit")
        self.grant_files(call, call.take_files(data))

    def _take_walls(self, call: RunningCall, data: bytes) -> None:
        # The guard sends one record in one piece. Another process in the box would have sent a second one.
        if call.walls:
            raise ProtocolError("a box sent two records of a call's layers")
        if len(data) > _MAX_WALLS:
            raise ProtocolError("a box sent an endless record of its layers")
        call.walls += data

    def _take_value(self, call: RunningCall, data: bytes) -> None:
        call.value += data
        if call.items or call.begins_with_item:
            self._take_items(call)
        if call.has_excess and call.cut_excess():
            self._kill(call)

    def _take_items(self, call: RunningCall) -> None:
        for item in call.split_items():
            if call.take_item is not None:
                self._empty_outputs(call)
                size = len(item) + _ITEM_OVERHEAD
                call.items_untaken += size
                call.take_item(item, partial(self._grant_item, call, size))
        self._hold(call, call.items_untaken >= CREDIT)

    def _empty_outputs(self, call: RunningCall) -> None:
        """Read the output that came before an item, unless there is no credit for it."""
        if call.pipes is not None and call.untaken < CREDIT:
            call.pipes.empty_outputs()

    def _grant_item(self, call: RunningCall, size: int) -> None:
        call.items_untaken -= size
        if call.items_untaken < CREDIT // 2:
            self._hold(call, False)

    def _hold(self, call: RunningCall, is_held: bool) -> None:  # noqa: FBT001  (the state to set)
        """Stop or continue reading the items of a call."""
        if call.is_held == is_held or call.ended.done():
            return
        call.is_held = is_held
        if call.pipes is None:
            self._writer.send({"type": "hold", "id": call.id, "on": is_held})
        elif is_held:
            call.pipes.pause_reply()
        else:
            call.pipes.resume_reply()
