"""The session with one runner: calls go in, their bytes and their ends come out.

It owns the order of things on a channel: `open` is answered by `hello` or `fault`, every call by `started`, chunks, and
then `ended` (that alone when it was killed before a child had it), and anything else is a `ProtocolError` that ends the
box. It decides nothing about limits or statuses, and looks into no stream. What it promises to the engine: every call
it accepted ends, at the latest when the box is lost.

Under gVisor a tool can write where its runner does. So nothing is believed that only a box which has run no tool can
say: a wall that could not be put up keeps the first call from starting, and one that fails later is a reason to open
another box, and none to say that this host has no such wall.

What calls send is taken by an `FlowControl`, at the pace of those who read it.

Slots (see `backends.base`) are lent to the runner ahead of need and come back, read and renewed, after each call.

Where the box has lines (see `wire.lines`), a call whose child is there already is sent straight to it, and its bytes
come straight back. The runner is told, because it watches over the child and reports its end; `started` and `returned`
are then what is seen here. In a box with a place for one call at a time, the child on its way is in that place: a call
waits a moment for it, rather than to have it ended for another.
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
_COMING_S: Final = 0.25
_ONLY_CHILD_COMING_S: Final = 2.0
"""In a box for one call, whose only child may be importing packages."""


class RunnerSession:
    """One box's channel; made on, and used from, one event loop."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._reader = FrameReader()
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, RunningCall] = {}
        self._slots = Slots()
        self.timers = TimerQueue()
        self._voice = MessageWriter(carrier, self.timers)
        self.flow = FlowControl(self._voice, kill=self.kill)
        self._lines = PreforkedChildren(carrier)
        self._on_lines: dict[int, RunningCall] = {}
        self._held: dict[int, tuple[bytes, Mapping[str, float]]] = {}
        """The requests and limits of calls that wait for a child which is being forked."""
        self._is_one_at_a_time = False
        self._coming_s = _COMING_S
        self._has_begun_a_call = False
        self._next_id = 1
        self.loss: BoxLost | None = None
        self.fault: LayerFailure | None = None
        """The wall that could not be put up, where that is why the box is lost."""
        self.on_loss: Callable[[], None] | None = None
        self.on_unfit: Callable[[], None] | None = None
        """Called when packages that were imported ahead cannot be shared any more, so that the box is retired."""
        self.environment_fault = ""
        """What the environment's packages did that keeps calls from sharing their import."""
        self._handlers: Mapping[type[RunnerMessage], Callable[[Any], None]] = {
            Hello: self._take_hello,
            BoxFault: self._take_fault,
            Started: self._take_started,
            Returned: self._take_returned,
            Ended: self._take_ended,
            Ready: self._take_ready,
            Surplus: self._take_surplus,
            Unfit: self._take_unfit,
            Gone: self._take_gone,
        }

    @property
    def running(self) -> int:
        """How many calls are under way."""
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
        """Tell the runner what it is to be; raises `LayerFailure` or `BoxLost` when it cannot. `outputs`: how much is
        taken of what calls leave as files."""
        self._carrier.listen(self)
        told = {"preload": list(preload), "environment": dict(environment or {}), "kit": read_authoring()}
        children = {"ahead": ahead, "single_use": is_single_use, "outputs": None if outputs is None else dict(outputs)}
        self._voice.say({"type": "open", "protocol": frames.PROTOCOL, **told, **children, **walls})
        self._lines.want(ahead, are_for_one_call=is_single_use)
        self._is_one_at_a_time = is_one_at_a_time
        self._coming_s = _ONLY_CHILD_COMING_S if is_single_use else _COMING_S
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
        """Send one call; of one that is not whole, `feed` sends the rest."""
        if self.loss is not None:
            raise self.loss
        loop = asyncio.get_running_loop()
        told, ended = loop.create_future(), loop.create_future()
        call = RunningCall(self._next_id, take, take_item, take_files, value_limit, ended=ended, replied=told)
        self._next_id += 1
        self._calls[call.id] = call
        self._lines.note_call()
        if self._call_on_a_line(call, request, limits=limits, is_ahead=True):
            return call
        if self._is_one_at_a_time and self._lines.are_coming:
            self._held[call.id] = (request, limits)
            self.timers.after(self._coming_s, partial(self._hold_no_longer, call))
        else:
            self._call_by_the_runner(call, request, limits=limits)
        return call

    def _call_by_the_runner(self, call: RunningCall, request: bytes, *, limits: Mapping[str, float]) -> None:
        """Send the call for the runner to hand on."""
        said = {"type": "call", "id": call.id, "credit": CREDIT, "limits": dict(limits)}
        self._voice.say(said, chunks=frames.pack_request(call.id, frames.pack_sized(request)))
        asyncio.get_running_loop().call_soon(self.offer_pipes)

    def _hold_no_longer(self, call: RunningCall) -> None:
        """The child has not come in time, or is gone."""
        held = self._held.pop(call.id, None)
        if held is not None:
            self._call_by_the_runner(call, held[0], limits=held[1])

    def _take_ready(self, said: Ready) -> None:
        self._lines.take_ready(said, None if said.slot is None else self._slots.take(said.slot))
        for id, (request, limits) in list(self._held.items())[:1]:
            if self._call_on_a_line(self._calls[id], request, limits=limits, is_ahead=False):
                del self._held[id]

    def _call_on_a_line(
        self, call: RunningCall, request: bytes, *, limits: Mapping[str, float], is_ahead: bool
    ) -> bool:
        """Send the call to a child that is there; False when none is."""
        assignment = frames.pack_sized(json.dumps(dict(limits)).encode()) if limits else _NO_LIMITS
        parts = assignment + frames.pack_sized(request)
        hear_output, hear_reply = partial(self.flow.hear_output, call), partial(self.flow.hear_reply, call)
        child = self._lines.call(parts, on_output=hear_output, on_reply=hear_reply)
        if child is None:
            return False
        self._on_lines[child.line.id] = call
        call.line, call.slot, call.cpu_before = child.line, child.slot, child.cpu_before
        call.walls += child.walls
        self._begin(call, was_ahead=is_ahead)
        said = {"type": "call", "id": call.id, "credit": CREDIT, "limits": dict(limits), "line": child.line.id}
        self._voice.say_soon(said, then=self.offer_pipes)
        return True

    async def feed(self, call: RunningCall, data: bytes) -> None:
        """Send more of what a call's process reads, once there is one; no more than a little is ever queued here."""
        await call.until_begun()
        if call.line is not None:
            await call.line.feed(data)
        elif call.id in self._calls:
            self._voice.go_on(frames.pack_request(call.id, data))
            await self._carrier.all_sent()

    def kill(self, call: RunningCall, *, wants_files: bool = False) -> None:
        """Kill the call's whole tree; its `ended` follows. What it has left comes before, if it is wanted: that takes a
        moment, and a second kill cuts it short."""
        call.was_killed = True
        if self._held.pop(call.id, None) is not None:
            self._note_end(call, NO_END.model_copy(update={"id": call.id, "killed_by": "engine"}))
            return
        said = {"type": "kill", "id": call.id}
        self._voice.say(said | {"files": True} if wants_files else said)

    def preload(self, modules: Sequence[str]) -> None:
        """Have the runner import these when it is idle; later calls find them imported."""
        self._voice.say({"type": "preload", "modules": list(modules)})

    def compile(self, source: str, *, filename: str) -> None:
        """Have the runner compile a tool when it is idle; later calls have only to run it."""
        self._voice.say({"type": "compile", "source": source, "filename": filename})

    def offer_slots(self, slots: Sequence[Slot]) -> None:
        """Give the runner places to put calls into."""
        said, doors = self._slots.lend(slots)
        self._voice.say({"type": "slots", "slots": said}, descriptors=doors)

    def offer_pipes(self) -> None:
        """Hand over as many lines as the box could use children ahead."""
        lines = self._lines.open_missing() if self.loss is None else ()
        if lines:
            said = {"type": "lines", "lines": [line.id for line in lines]}
            self._voice.say(said, descriptors=[end for line in lines for end in line.take_child_fds()])

    def release_slot(self, call: RunningCall) -> bool:
        """The engine has read the call's slot: renew it. False when it had to be retired."""
        slot = call.slot
        if slot is None:
            return True
        call.slot = None
        renewed = self._slots.renew(slot)
        self._voice.say({"type": "release", "slot": slot.id, "retire": not renewed})
        return renewed

    def abandon(self, reason: str) -> None:
        """Give up on the box: every call under way ends as lost."""
        self._lose(BoxLost(reason))

    def close(self) -> None:
        """Let go of the slots; the box is gone."""
        self._lose(BoxLost("the box was closed"))
        self._slots.close()

    # What the box says

    def received(self, data: bytes) -> None:
        """Bytes from the box; what cannot be understood ends the session, and nothing is heard after its end."""
        if self.loss is not None:
            return
        try:
            for frame in self._reader.feed(data):
                self._take_chunk(frame) if isinstance(frame, Chunk) else self._take_message(parse_message(frame))
        except ProtocolError as error:
            self._lose(error)

    def closed(self) -> None:
        """No more bytes will come."""
        self._lose(BoxLost("the box is gone: its channel closed"))

    def _take_message(self, said: RunnerMessage) -> None:
        self._handlers[type(said)](said)

    def _take_hello(self, said: Hello) -> None:
        if self._hello.done():
            raise ProtocolError("a box said hello twice")
        if said.protocol != frames.PROTOCOL:
            raise ProtocolError(f"the runner speaks protocol {said.protocol}, the engine {frames.PROTOCOL}")
        self.environment_fault = said.unfit
        self._hello.set_result(said)

    def _begin(self, call: RunningCall, *, was_ahead: bool) -> None:
        self._has_begun_a_call = True
        call.environment_fault = self.environment_fault
        call.begin(was_ahead=was_ahead)

    def _take_fault(self, said: BoxFault) -> None:
        if self._has_begun_a_call:
            reason = f"{said.layer}: {said.reason[:300]}"
            raise ProtocolError(f"a box in which a call had started said that a wall could not be put up: {reason}")
        self._lose(LayerFailure(said.layer, said.reason))

    def _take_started(self, said: Started) -> None:
        call = self._calls.get(said.id)
        if call is None or call.is_started:
            raise ProtocolError(f"a box said started of call {said.id}, which is not waiting for it")
        self._begin(call, was_ahead=said.ahead)
        if said.slot is not None:
            call.slot = self._slots.take(said.slot)

    def _take_returned(self, said: Returned) -> None:
        call = self._calls.get(said.id)
        if call is None or not call.is_started or call.has_returned or call.line is not None:
            raise ProtocolError(f"a box said returned of call {said.id}, which is not running")
        call.cpu_before = said.cpu_before
        call.note_reply()

    def _take_surplus(self, said: Surplus) -> None:
        self._lines.dismiss(said.line, wanted=said.wanted)
        self.offer_pipes()

    def _take_unfit(self, said: Unfit) -> None:
        self.environment_fault = said.reason
        if self.on_unfit is not None:
            self.on_unfit()

    def _take_gone(self, said: Gone) -> None:
        """A short call may have ended before the runner heard of it."""
        call = self._on_lines.get(said.line)
        if call is not None:
            self._note_end(call, said.of_call(call.id))
            return
        slot = self._lines.lose(said.line)
        if slot is not None:
            self._slots.leave(slot)
            self._voice.say({"type": "release", "slot": slot.id, "retire": False})
        self.offer_pipes()
        for id in [*self._held]:
            self._hold_no_longer(self._calls[id])

    def _take_ended(self, said: Ended) -> None:
        call = self._calls.get(said.id)
        if call is None:
            raise ProtocolError(f"a box said ended of call {said.id}, which is not running")
        if not (call.is_started or call.was_killed):
            raise ProtocolError(f"a box ended call {said.id}, which it had not started")
        self._note_end(call, said)

    def _note_end(self, call: RunningCall, said: Ended) -> None:
        self._leave_line(call)
        del self._calls[call.id]
        call.end(said)

    def _take_chunk(self, chunk: Chunk) -> None:
        call = self._calls.get(chunk.call)
        if call is None or not call.is_started or (call.line is not None and chunk.stream is not Stream.FILES):
            raise ProtocolError(f"a box sent bytes of call {chunk.call}, which is not running in its hands")
        self.flow.take_chunk(call, chunk)

    def _leave_line(self, call: RunningCall) -> None:
        """The call is over: its pipes hold all there is. One that never got all of its request never started."""
        if call.line is not None:
            call.line.empty()
            if call.line.retract():
                call.is_started = call.was_ahead = False
            call.line.close()
            self._on_lines.pop(call.line.id, None)

    def _lose(self, reason: BoxLost | LayerFailure) -> None:
        """End everything under way; the first reason is kept."""
        if self.loss is not None:
            return
        self.loss = reason if isinstance(reason, BoxLost) else BoxLost(str(reason))
        self.fault = reason if isinstance(reason, LayerFailure) else None
        if not self._hello.done():
            self._hello.set_exception(reason)
            self._hello.exception()  # it may be that nobody waits for it yet
        self._voice.fall_silent()
        self._lines.close()
        self._held.clear()
        for call in list(self._calls.values()):
            self._leave_line(call)
            call.was_lost = True
            call.end(NO_END)
        self._calls.clear()
        if self.on_loss is not None:
            self.on_loss()
