"""A runner in memory, which speaks the real protocol on the event loop and plays scripts instead of running tools.

The fake keeps the promises of a real runner. The runner answers `open` with `hello`, and every call with `started`, the
record of its layers, its output as far as that was granted, its reply and `returned`, its files, and one `ended`. A
call waits for a free slot, and for the whole of its request with its files.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, Protocol

from sandbox.protocol import frames
from sandbox.protocol.frames import Chunk, FrameReader, Stream
from sandbox.protocols import Reading
from sandbox.testing.answers import (
    STEPS,
    Exceeds,
    Gives,
    Hangs,
    Leaves,
    LosesBox,
    Prints,
    Raises,
    Returns,
    Script,
    Step,
    Uses,
)
from sandbox.testing.fake_call import CallUnderWay, FakeCall
from sandbox.testing.replies import end_of, ended, killed, packed

_PIECE: Final = 1 << 16
_ITEM: Final = 1 << 31
# A hard kill takes the guard along, and with it the record of its measurements.
_UNMEASURED: Final = {"bytes_free": None, "inodes_free": None}


class Place(Protocol):
    """The box that the runner is in."""

    def say(self, data: bytes) -> None:
        """Send to the engine."""

    def lose(self) -> None:
        """Be gone."""

    def use(self, slot: int, reading: Reading) -> None:
        """Have the slot say this."""

    def exceed(self, slot: int, limit: str) -> None:
        """Have the slot say that the limit was met, if it is one that slots count."""

    def answer(self, call: FakeCall) -> Any:
        """Return the steps to play, or an awaitable of them. May raise like the tool."""


class FakeRunner:
    """The engine's counterpart in a fake box."""

    def __init__(self, place: Place, *, walls: dict[str, Any], unfit: str = "") -> None:
        self._place = place
        self._walls = walls
        self._unfit = unfit
        self._reader = FrameReader()
        self._calls: dict[int, CallUnderWay] = {}
        self._waiting: deque[CallUnderWay] = deque()
        self._free: deque[int] = deque()
        self._taken: dict[str, int] | None = None
        self.ahead = 0
        self.preloaded: list[str] = []
        self.compiled: list[tuple[str, str]] = []

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """The calls being played."""
        return [call.task for call in self._calls.values() if call.task is not None]

    def hear(self, data: bytes) -> None:
        """Bytes from the engine."""
        hearers: dict[str, Callable[..., None]] = {
            "open": self._open,
            "call": self._begin,
            "kill": self._kill,
            "grant": self._grant,
            "hold": self._hold,
            "slots": self._take_slots,
            "release": self._release,
            "preload": self._preload,
            "compile": self._compile,
        }
        for frame in self._reader.feed(data):
            if isinstance(frame, Chunk):
                self._take_request(frame)
            else:
                message = json.loads(frame)
                hearers[message.pop("type")](**message)

    def _open(self, *, preload: list[str], ahead: int, outputs: dict[str, int] | None, **_: Any) -> None:
        self.ahead = ahead
        self.preloaded += preload
        self._taken = outputs
        self._tell(
            type="hello",
            protocol=frames.PROTOCOL,
            python="3",
            implementation="fake",
            failed={},
            refused={},
            unfit=self._unfit if preload else "",
        )

    def _preload(self, *, modules: list[str]) -> None:
        self.preloaded += modules

    def _compile(self, *, source: str, filename: str) -> None:
        self.compiled.append((filename, source))

    def _take_slots(self, *, slots: list[list[int]]) -> None:
        self._free.extend(slot for slot, _ in slots)
        self._serve()

    def _release(self, *, slot: int, retire: bool) -> None:
        if not retire:
            self._free.append(slot)
        self._serve()

    def _begin(self, *, id: int, credit: int, limits: dict[str, int]) -> None:
        self._calls[id] = CallUnderWay(id, credit, limits, files_credit=credit)

    def _take_request(self, chunk: Chunk) -> None:
        call = self._calls.get(chunk.call)
        if call is None:
            return
        if call.take(chunk.data):
            self._waiting.append(call)
            self._serve()

    def _grant(self, *, id: int, bytes: int, of: str = "output") -> None:
        call = self._calls.get(id)
        if call is None:
            return
        if of == "output":
            call.credit += bytes
        else:
            call.files_credit += bytes
        call.granted.set()

    def _hold(self, *, id: int, on: bool) -> None:
        call = self._calls.get(id)
        if call is not None:
            call.is_held = on
            call.granted.set()

    def _kill(self, *, id: int, files: bool = False) -> None:
        call = self._calls.get(id)
        if call is None or call.is_stubborn:
            return
        if call in self._waiting:
            self._waiting.remove(call)
        if call.task is not None:
            call.task.cancel()
        if not files:
            self._end(call, {**killed("engine"), **_UNMEASURED})
        elif call.left.records(self._taken or {}):
            call.task = asyncio.get_running_loop().create_task(self._end_with_files(call, killed("engine")))
        else:
            self._end(call, {**call.counters, **killed("engine")})

    def _serve(self) -> None:
        """Start what has all it needs."""
        while self._waiting and self._free:
            call = self._waiting.popleft()
            call.slot = self._free.popleft()
            self._tell(type="started", id=call.id, slot=call.slot, ahead=False)
            self._send(call, Stream.WALLS, json.dumps({"walls": self._walls}).encode())
            call.task = asyncio.get_running_loop().create_task(self._play(call))

    async def _play(self, call: CallUnderWay) -> None:
        assert call.fields is not None
        request = call.fields
        await call.all_given.wait()
        for step in await self._steps(call, request):
            if isinstance(step, Prints):
                await self._print(call, step)
            elif isinstance(step, Uses):
                self._use(call, step)
            elif isinstance(step, Leaves):
                call.left.files.update(step.files)
                call.left.refused.update(step.refused)
            elif isinstance(step, Gives):
                await self._give(call, step, is_wanted="streams" in request)
            else:
                await self._meet(call, step)
                await self._finish(call, step, request["value_limit"])
                return
        await self._finish(call, Returns(call.given or None), request["value_limit"])

    async def _steps(self, call: CallUnderWay, request: dict[str, Any]) -> tuple[Step, ...]:
        fake = FakeCall(
            name=request["entry"],
            arguments=request["arguments"],
            source=request["source"],
            environment=request["environment"],
            limits=call.limits,
            files=call.files(),
        )
        try:
            answer = self._place.answer(fake)
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, SystemExit) as error:
            return _raising(error)
        if isinstance(answer, Script):
            return answer.steps
        return (answer,) if isinstance(answer, STEPS) else (Returns(answer),)

    async def _print(self, call: CallUnderWay, step: Prints) -> None:
        is_first = True
        while is_first or step.is_repeated:
            for stream, data in ((Stream.STDOUT, step.stdout), (Stream.STDERR, step.stderr)):
                for start in range(0, len(data), _PIECE):
                    await self._print_piece(call, stream, data[start : start + _PIECE])
            await asyncio.sleep(0)
            is_first = False

    async def _print_piece(self, call: CallUnderWay, stream: Stream, data: bytes) -> None:
        while call.credit <= 0:
            call.granted.clear()
            await call.granted.wait()
        call.credit -= len(data)
        self._send(call, stream, data)

    async def _give(self, call: CallUnderWay, step: Gives, *, is_wanted: bool) -> None:
        call.given += step.items
        for item in step.items if is_wanted else ():
            while call.is_held:
                call.granted.clear()
                await call.granted.wait()
            text = json.dumps(item, allow_nan=False).encode("ascii")
            self._send(call, Stream.VALUE, (_ITEM | len(text)).to_bytes(4, "big") + text)
            await asyncio.sleep(0)

    def _use(self, call: CallUnderWay, step: Uses) -> None:
        if call.slot is not None:
            self._place.use(call.slot, step.reading)

    async def _meet(self, call: CallUnderWay, step: Step) -> None:
        """Do the part of a step that comes before its end, if it has one."""
        if isinstance(step, Exceeds) and call.slot is not None:
            self._place.exceed(call.slot, step.limit)
        if isinstance(step, LosesBox):
            self._place.lose()
            await _forever()
        if isinstance(step, Hangs):
            call.is_stubborn = step.is_stubborn
            await _forever()

    async def _finish(self, call: CallUnderWay, step: Step, value_limit: int) -> None:
        end = end_of(step, value_limit=value_limit)
        has_left = self._taken is not None and bool(call.left.files or call.left.refused)
        if end.reply is not None:
            self._send(call, Stream.VALUE, packed({**end.reply, "files": True} if has_left else end.reply))
            self._tell(type="returned", id=call.id, cpu_before=0.0)
        if isinstance(step, Returns | Exceeds) and step.lingers:
            call.counters = {name: value for name, value in end.fields.items() if name in _UNMEASURED}
            await _forever()
        await self._end_with_files(call, end.fields)

    async def _end_with_files(self, call: CallUnderWay, fields: dict[str, Any]) -> None:
        """Send the files of a call when everything else of it is over, and end it."""
        records = b"" if self._taken is None else call.left.records(self._taken)
        for start in range(0, len(records), _PIECE):
            while call.files_credit <= 0:
                call.granted.clear()
                await call.granted.wait()
            piece = records[start : start + _PIECE]
            call.files_credit -= len(piece)
            self._send(call, Stream.FILES, piece)
        self._end(call, fields)

    def _end(self, call: CallUnderWay, fields: dict[str, Any]) -> None:
        del self._calls[call.id]
        self._tell(**ended(call.id, fields))

    def _send(self, call: CallUnderWay, stream: Stream, data: bytes) -> None:
        for start in range(0, len(data), frames.MAX_CHUNK):
            piece = data[start : start + frames.MAX_CHUNK]
            self._place.say(frames.pack_chunk(Chunk(call.id, stream, piece)))

    def _tell(self, **fields: Any) -> None:
        self._place.say(frames.pack_message(fields))


def _raising(error: BaseException) -> tuple[Step, ...]:
    """Raise it; what `sys.exit` was given to say is printed first, as the interpreter does."""
    says = isinstance(error, SystemExit) and error.code is not None and not isinstance(error.code, int)
    said = f"{error}\n".encode() if says else b""
    return (Prints(b"", said, is_repeated=False), Raises(error))


async def _forever() -> NoReturn:
    while True:
        await asyncio.Event().wait()
