"""The session with one runner: calls go in, their bytes and their ends come out.

The session owns the order of messages on a channel. The runner answers `open` with `hello` or `fault`, and every call
with `started`, chunks, and then `ended` (or `ended` alone, if the call was killed before a child had it). Anything else
is a `ProtocolError` that ends the box. The session decides nothing about limits or statuses, and reads no stream. Its
promise to the engine: every call that it accepted ends, at the latest when the box is lost.

Under gVisor, a tool can write where its runner does. The engine therefore believes a failed layer only from a box that
has run no tool: before the first call, the failure says that this host has no such layer; later, it only is a reason
to open another box.

`FlowControl` reads what calls send, at the pace of their readers. Slots (see `backends.base`) are offered to the runner
ahead of need and come back, read and renewed, after each call.

If the box has direct pipes (see `direct_pipes`), a call goes straight to a child that was forked ahead, and its bytes
come straight back. The runner hears of the call, because it watches the child and reports its end; `started` and
`returned` are then observed here. In a box with room for one call at a time, the child on its way occupies that room: a
call waits a moment for the child, because otherwise the runner would have to end it for another.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pydantic import JsonValue

from sandbox.errors import BoxLost, ProtocolError
from sandbox.protocol import frames
from sandbox.protocol.direct_pipes import PreforkedChildren
from sandbox.protocol.flow_control import CREDIT, FlowControl
from sandbox.protocol.frames import Chunk, FrameReader, Stream
from sandbox.protocol.message_writer import MessageWriter
from sandbox.protocol.messages import (
    NO_END,
    BoxFault,
    Ended,
    Gone,
    Hello,
    LayerFailure,
    Ready,
    Returned,
    RunnerMessage,
    Started,
    Surplus,
    Unfit,
    parse_message,
)
from sandbox.protocol.running_call import RunningCall, TakeItem
from sandbox.protocol.slots import Slots
from sandbox.protocol.timers import TimerQueue
from sandbox.protocols import Carrier, Slot
from sandbox.resources import read_authoring

_NO_LIMITS: Final = frames.pack_sized(b"{}")
_CHILD_PATIENCE_S: Final = 0.25
# In a single-use box, whose only child may be importing packages.
_ONLY_CHILD_PATIENCE_S: Final = 2.0


class RunnerSession:
    """The session over one box's channel. Made on, and used from, one event loop."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._reader = FrameReader()
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, RunningCall] = {}
        self._slots = Slots()
        self.timers = TimerQueue()
        self._writer = MessageWriter(carrier, self.timers)
        self.flow = FlowControl(self._writer, kill=self.kill)
        self._children = PreforkedChildren(carrier)
        self._direct_calls: dict[int, RunningCall] = {}
        self._held: dict[int, tuple[bytes, Mapping[str, float]]] = {}
        """The requests and limits of calls that wait for a child on its way."""
        self._is_one_at_a_time = False
        self._child_patience_s = _CHILD_PATIENCE_S
        self._has_begun_a_call = False
        self._next_id = 1
        self.loss: BoxLost | None = None
        self.fault: LayerFailure | None = None
        """The layer that could not be set up, if that is why the box is lost."""
        self.on_loss: Callable[[], None] | None = None
        self.on_unfit: Callable[[], None] | None = None
        """Called when calls can no longer share the import of packages, so that the box is retired."""
        self.environment_fault = ""
        """Why calls cannot share the import of the environment's packages."""
        self._handlers: Mapping[type[RunnerMessage], Callable[[Any], None]] = {
            Hello: self._on_hello,
            BoxFault: self._on_fault,
            Started: self._on_started,
            Returned: self._on_returned,
            Ended: self._on_ended,
            Ready: self._on_ready,
            Surplus: self._on_surplus,
            Unfit: self._on_unfit,
            Gone: self._on_gone,
        }

    @property
    def running(self) -> int:
        """The number of calls under way."""
        return len(self._calls)

    async def open(
        self,
        walls: Mapping[str, JsonValue],
        *,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ahead: int = 0,
        outputs: Mapping[str, int] | None = None,
        is_single_use: bool = False,
        is_one_at_a_time: bool = False,
    ) -> Hello:
        """Configure the runner and return its hello. `outputs` bounds the files that calls may leave.

        Raise `LayerFailure` or `BoxLost` if the runner cannot do that.
        """
        self._carrier.listen(self)
        message = {
            "type": "open",
            "protocol": frames.PROTOCOL,
            "preload": list(preload),
            "environment": dict(environment or {}),
            "kit": read_authoring(),
            "ahead": ahead,
            "single_use": is_single_use,
            "outputs": None if outputs is None else dict(outputs),
        }
        self._writer.send({**message, **walls})
        self._children.want(ahead, is_single_use=is_single_use)
        self._is_one_at_a_time = is_one_at_a_time
        self._child_patience_s = _ONLY_CHILD_PATIENCE_S if is_single_use else _CHILD_PATIENCE_S
        return await self._hello

    def start(
        self,
        request: bytes,
        *,
        limits: Mapping[str, float],
        value_limit: int,
        take: Callable[[Stream, bytes], int],
        take_item: TakeItem | None = None,
        take_files: Callable[[bytes], int] = len,
    ) -> RunningCall:
        """Send a call. `feed` sends the rest of a request with files."""
        if self.loss is not None:
            raise self.loss
        loop = asyncio.get_running_loop()
        ended, replied = loop.create_future(), loop.create_future()
        call = RunningCall(self._next_id, take, take_item, take_files, value_limit, ended=ended, replied=replied)
        self._next_id += 1
        self._calls[call.id] = call
        self._children.note_call()
        if self._call_child(call, request, limits=limits, is_ahead=True):
            return call
        if self._is_one_at_a_time and self._children.is_one_coming:
            self._held[call.id] = (request, limits)
            self.timers.after(self._child_patience_s, partial(self._stop_holding, call))
        else:
            self._call_runner(call, request, limits=limits)
        return call

    def _call_runner(self, call: RunningCall, request: bytes, *, limits: Mapping[str, float]) -> None:
        """Send the call to the runner, which passes it on to a child."""
        message = {"type": "call", "id": call.id, "credit": CREDIT, "limits": dict(limits)}
        self._writer.send(message, chunks=frames.pack_request(call.id, frames.pack_sized(request)))
        asyncio.get_running_loop().call_soon(self.offer_pipes)

    def _stop_holding(self, call: RunningCall) -> None:
        """Send a held call to the runner, because its child is late or gone."""
        held = self._held.pop(call.id, None)
        if held is not None:
            self._call_runner(call, held[0], limits=held[1])

    def _call_child(self, call: RunningCall, request: bytes, *, limits: Mapping[str, float], is_ahead: bool) -> bool:
        """Send the call to a ready child. Return False without one."""
        assignment = frames.pack_sized(json.dumps(dict(limits)).encode()) if limits else _NO_LIMITS
        parts = assignment + frames.pack_sized(request)
        on_output, on_reply = partial(self.flow.take_output, call), partial(self.flow.take_reply, call)
        child = self._children.call(parts, on_output=on_output, on_reply=on_reply)
        if child is None:
            return False
        self._direct_calls[child.pipes.id] = call
        call.pipes, call.slot, call.cpu_before = child.pipes, child.slot, child.cpu_before
        call.walls += child.walls
        self._begin(call, was_ahead=is_ahead)
        message = {"type": "call", "id": call.id, "credit": CREDIT, "limits": dict(limits), "line": child.pipes.id}
        self._writer.send_soon(message, then=self.offer_pipes)
        return True

    async def feed(self, call: RunningCall, data: bytes) -> None:
        """Send more of what a call's process reads, once there is one. Only a little is ever queued here."""
        await call.until_begun()
        if call.pipes is not None:
            await call.pipes.feed(data)
        elif call.id in self._calls:
            self._writer.send_chunks(frames.pack_request(call.id, data))
            await self._carrier.all_sent()

    def kill(self, call: RunningCall, *, wants_files: bool = False) -> None:
        """Kill the call's whole process tree; its `ended` follows.

        With `wants_files`, the guard survives to send the call's files and its last record. A second kill cuts that
        short.
        """
        call.was_killed = True
        if self._held.pop(call.id, None) is not None:
            self._note_end(call, NO_END.model_copy(update={"id": call.id, "killed_by": "engine"}))
            return
        message = {"type": "kill", "id": call.id}
        self._writer.send(message | {"files": True} if wants_files else message)

    def preload(self, modules: Sequence[str]) -> None:
        """Have the runner import modules when it is idle, for later calls."""
        self._writer.send({"type": "preload", "modules": list(modules)})

    def compile(self, source: str, *, filename: str) -> None:
        """Have the runner compile a tool when it is idle, for later calls."""
        self._writer.send({"type": "compile", "source": source, "filename": filename})

    def offer_slots(self, slots: Sequence[Slot]) -> None:
        """Give the runner slots for calls."""
        fields, cgroup_fds = self._slots.offer(slots)
        self._writer.send({"type": "slots", "slots": fields}, descriptors=cgroup_fds)

    def offer_pipes(self) -> None:
        """Give the runner direct pipes for as many children as the box could use ahead."""
        opened = self._children.open_missing() if self.loss is None else ()
        if opened:
            message = {"type": "lines", "lines": [pipes.id for pipes in opened]}
            self._writer.send(message, descriptors=[end for pipes in opened for end in pipes.take_child_fds()])

    def release_slot(self, call: RunningCall) -> bool:
        """Renew the slot of a call after its counters were read. Return False if the slot had to be retired."""
        slot = call.slot
        if slot is None:
            return True
        call.slot = None
        renewed = self._slots.renew(slot)
        self._writer.send({"type": "release", "slot": slot.id, "retire": not renewed})
        return renewed

    def abandon(self, reason: str) -> None:
        """Give up the box. Every call under way ends as lost."""
        self._lose(BoxLost(reason))

    def close(self) -> None:
        """Close the slots of a box that is gone."""
        self._lose(BoxLost("the box was closed"))
        self._slots.close()

    # Bytes and messages from the box

    def received(self, data: bytes) -> None:
        """Read bytes from the box. An invalid frame or message ends the session, and nothing is read after its end."""
        if self.loss is not None:
            return
        try:
            for frame in self._reader.feed(data):
                if isinstance(frame, Chunk):
                    self._take_chunk(frame)
                else:
                    message = parse_message(frame)
                    self._handlers[type(message)](message)
        except ProtocolError as error:
            self._lose(error)

    def closed(self) -> None:
        """Note that no more bytes come."""
        self._lose(BoxLost("the box is gone: its channel closed"))

    def _on_hello(self, message: Hello) -> None:
        if self._hello.done():
            raise ProtocolError("a box said hello twice")
        if message.protocol != frames.PROTOCOL:
            raise ProtocolError(f"the runner speaks protocol {message.protocol}, the engine {frames.PROTOCOL}")
        self.environment_fault = message.unfit
        self._hello.set_result(message)

    def _on_fault(self, message: BoxFault) -> None:
        if self._has_begun_a_call:
            reason = f"{message.layer}: {message.reason[:300]}"
            raise ProtocolError(f"a box in which a call had started reported a failed layer: {reason}")
        self._lose(LayerFailure(message.layer, message.reason))

    def _on_ready(self, message: Ready) -> None:
        self._children.take_ready(message, None if message.slot is None else self._slots.take(message.slot))
        for id, (request, limits) in list(self._held.items())[:1]:
            if self._call_child(self._calls[id], request, limits=limits, is_ahead=False):
                del self._held[id]

    def _on_started(self, message: Started) -> None:
        call = self._calls.get(message.id)
        if call is None or call.is_started:
            raise ProtocolError(f"a box said started of call {message.id}, which is not waiting for it")
        self._begin(call, was_ahead=message.ahead)
        if message.slot is not None:
            call.slot = self._slots.take(message.slot)

    def _on_returned(self, message: Returned) -> None:
        call = self._calls.get(message.id)
        if call is None or not call.is_started or call.has_returned or call.pipes is not None:
            raise ProtocolError(f"a box said returned of call {message.id}, which is not running")
        call.cpu_before = message.cpu_before
        call.note_reply()

    def _on_surplus(self, message: Surplus) -> None:
        self._children.dismiss(message.line, wanted=message.wanted)
        self.offer_pipes()

    def _on_unfit(self, message: Unfit) -> None:
        self.environment_fault = message.reason
        if self.on_unfit is not None:
            self.on_unfit()

    def _on_gone(self, message: Gone) -> None:
        # A short call may have ended before the runner heard of it.
        call = self._direct_calls.get(message.line)
        if call is not None:
            self._note_end(call, message.of_call(call.id))
            return
        slot = self._children.lose(message.line)
        if slot is not None:
            self._slots.leave(slot)
            self._writer.send({"type": "release", "slot": slot.id, "retire": False})
        self.offer_pipes()
        for id in [*self._held]:
            self._stop_holding(self._calls[id])

    def _on_ended(self, message: Ended) -> None:
        call = self._calls.get(message.id)
        if call is None:
            raise ProtocolError(f"a box said ended of call {message.id}, which is not running")
        if not (call.is_started or call.was_killed):
            raise ProtocolError(f"a box ended call {message.id}, which it had not started")
        self._note_end(call, message)

    def _take_chunk(self, chunk: Chunk) -> None:
        call = self._calls.get(chunk.call)
        if call is None or not call.is_started or (call.pipes is not None and chunk.stream is not Stream.FILES):
            raise ProtocolError(f"a box sent bytes of call {chunk.call}, which is not running in its hands")
        self.flow.take_chunk(call, chunk)

    # The state of calls

    def _begin(self, call: RunningCall, *, was_ahead: bool) -> None:
        self._has_begun_a_call = True
        call.environment_fault = self.environment_fault
        call.begin(was_ahead=was_ahead)

    def _note_end(self, call: RunningCall, end: Ended) -> None:
        self._close_pipes(call)
        del self._calls[call.id]
        call.end(end)

    def _close_pipes(self, call: RunningCall) -> None:
        """Read what the pipes of an ended call still hold, and close them."""
        if call.pipes is None:
            return
        call.pipes.empty()
        if call.pipes.retract():
            # The child never got the whole request, so the call never started.
            call.is_started = call.was_ahead = False
        call.pipes.close()
        self._direct_calls.pop(call.pipes.id, None)

    def _lose(self, reason: BoxLost | LayerFailure) -> None:
        """End everything under way. The first reason is kept."""
        if self.loss is not None:
            return
        self.loss = reason if isinstance(reason, BoxLost) else BoxLost(str(reason))
        self.fault = reason if isinstance(reason, LayerFailure) else None
        if not self._hello.done():
            self._hello.set_exception(reason)
            # Without this, asyncio logs the exception if the opener was cancelled and never reads it.
            self._hello.exception()
        self._writer.close()
        self._children.close()
        self._held.clear()
        for call in list(self._calls.values()):
            self._close_pipes(call)
            call.was_lost = True
            call.end(NO_END)
        self._calls.clear()
        if self.on_loss is not None:
            self.on_loss()
