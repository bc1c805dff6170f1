"""Calls on direct pipes go straight to a waiting child and come straight back, and the runner is notified."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import selectors
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import pytest

from sandbox.backends.pipes import ChildPipes
from sandbox.errors import ProtocolError
from sandbox.protocol.flow_control import CREDIT
from sandbox.protocol.frames import Chunk, FrameReader, Stream, pack_message
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.session import RunnerSession
from sandbox.protocols import Receiver
from sandbox.testing.fake_backend import FakeSlot

HELLO: Final[dict[str, Any]] = {
    "type": "hello",
    "protocol": 1,
    "python": "3",
    "implementation": "x",
    "failed": {},
    "refused": {},
}
NOTHING: Final = dict.fromkeys(("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free", "killed_by"))
WALLS: Final = '{"walls":{}}'
REPLY: Final = b"\0\0\0\2{}"
PATIENCE_S: Final = 60
REQUEST, STDOUT, STDERR, VALUE = range(4)


class Wire:
    """A channel with direct pipes that records the engine's messages and the far ends."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.requests = b""
        self.ends: list[list[int]] = []
        self.has_descriptors = True
        self._reader = FrameReader()

    def listen(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self.ends += [list(descriptors[start : start + 4]) for start in range(0, len(descriptors), 4)]
        for frame in self._reader.feed(data):
            if isinstance(frame, Chunk):
                self.requests += frame.data
            else:
                self.said.append(json.loads(frame))

    async def all_sent(self) -> None:
        return

    def open_pipes(self) -> ChildPipes | None:
        return ChildPipes(len(self.ends)) if self.has_descriptors else None

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.said if message["type"] == kind]

    def leave(self, line: int) -> None:
        """Close the far ends of that pipe, as the death of its child would."""
        for end in self.ends[line]:
            os.close(end)
        self.ends[line] = []


class Talk:
    """A session with a box that has direct pipes."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.session = RunnerSession(self.wire)
        self.output: list[tuple[Stream, bytes]] = []
        self.taken_at_once = True

    async def open(self, *, ahead: int = 2, is_single_use: bool = False, is_one_at_a_time: bool = False) -> None:
        opening = asyncio.create_task(
            self.session.open({}, ahead=ahead, is_single_use=is_single_use, is_one_at_a_time=is_one_at_a_time)
        )
        await asyncio.sleep(0)
        self.hear(**HELLO)
        await opening
        self.session.offer_pipes()

    def hear(self, **message: object) -> None:
        self.session.received(pack_message(message))

    def ready(self, line: int = 0, *, slot: int | None = None) -> None:
        self.hear(type="ready", line=line, slot=slot, cpu_before=0.25, walls=WALLS)

    def gone(self, line: int = 0, **fields: object) -> None:
        self.hear(type="gone", line=line, **(NOTHING | fields))

    def ended(self, id: int = 1, **fields: object) -> None:
        self.hear(type="ended", id=id, **(NOTHING | fields))

    def start(self) -> RunningCall:
        return self.session.start(b"request", limits={"cpu": 5}, value_limit=1000, take=self._take)

    def _take(self, stream: Stream, data: bytes) -> int:
        self.output.append((stream, data))
        return len(data) if self.taken_at_once else 0

    def close(self) -> None:
        self.session.close()
        for line in range(len(self.wire.ends)):
            self.wire.leave(line)


class LastFirst(selectors.DefaultSelector):
    """A selector that reports ready descriptors in the other order."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout)[::-1]


def talking(test: Callable[[Talk], Awaitable[None]]) -> Callable[[], None]:
    async def talk() -> None:
        open_talk = Talk()
        try:
            await open_talk.open()
            async with asyncio.timeout(PATIENCE_S):
                await test(open_talk)
        finally:
            open_talk.close()

    def run() -> None:
        for selector in (selectors.DefaultSelector(), LastFirst()):
            with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
                runner.run(talk())

    run.__name__ = getattr(test, "__name__", "test")
    run.__module__ = test.__module__
    return run


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (nobody sets an event: what is waited for comes through a pipe)
        await asyncio.sleep(0)


@talking
async def test_pipes_are_handed_over_ahead_and_replaced_after_use(talk: Talk) -> None:
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0]]
    talk.ready()
    talk.start()
    await until(lambda: len(talk.wire.ends) == 2)
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0], [1]]


@talking
async def test_a_call_goes_to_the_waiting_child_and_the_runner_is_notified(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    limits, request = b'{"cpu": 5}', b"request"
    sent = b"".join(len(part).to_bytes(8, "big") + part for part in (limits, request))
    assert os.read(talk.wire.ends[0][REQUEST], 999) == sent
    await until(lambda: talk.wire.of("call"))
    assert talk.wire.of("call") == [{"type": "call", "id": 1, "credit": CREDIT, "limits": {"cpu": 5}, "line": 0}]
    assert talk.wire.requests == b""
    assert (call.is_started, call.was_ahead) == (True, True)
    assert (bytes(call.walls), call.cpu_before) == (WALLS.encode(), 0.25)


@talking
async def test_the_runner_hears_of_a_call_before_anything_else_about_it(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    assert talk.wire.of("call") == []
    talk.session.kill(call)
    assert [message["type"] for message in talk.wire.said][-2:] == ["call", "kill"]


@talking
async def test_output_before_the_reply_comes_before_the_reply(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    _, stdout, stderr, value = talk.wire.ends[0]
    os.write(value, REPLY[:5])
    os.write(stdout, b"out")
    await until(lambda: talk.output)
    assert not call.has_replied
    os.write(stderr, b"err")
    os.write(value, REPLY[5:])
    await call.replied
    assert (bytes(call.value), talk.output) == (REPLY, [(Stream.STDOUT, b"out"), (Stream.STDERR, b"err")])
    assert (call.has_returned, call.cpu_before) == (True, 0.25)
    assert not call.ended.done()


@talking
async def test_output_sent_with_the_reply_comes_before_the_caller_goes_on(talk: Talk) -> None:
    talk.ready()
    for size in (1, 1 << 16, 100_000) * 7:
        talk.output.clear()
        line = len(talk.wire.ends) - 1
        call = talk.start()
        _, stdout, stderr, value = talk.wire.ends[line]
        fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.write(stdout, b"o" * size)
        os.write(stderr, b"e")
        os.write(value, REPLY)
        await call.replied
        printed = {stream: b"".join(data for of, data in talk.output if of is stream) for stream, _ in talk.output}
        assert printed == {Stream.STDOUT: b"o" * size, Stream.STDERR: b"e"}
        talk.ended(id=call.id, exit_code=0)
        talk.session.offer_pipes()
        talk.ready(line + 1)


@talking
async def test_bytes_still_in_the_pipes_at_the_end_are_not_lost(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    os.write(talk.wire.ends[0][STDERR], b"last words")
    os.write(talk.wire.ends[0][VALUE], REPLY)
    talk.ended(exit_code=0)
    assert (bytes(call.value), talk.output) == (REPLY, [(Stream.STDERR, b"last words")])
    assert call.ended.done()


@talking
async def test_output_is_not_lost_with_the_box(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    os.write(talk.wire.ends[0][STDOUT], b"last words")
    talk.session.closed()
    assert (call.was_lost, talk.output) == (True, [(Stream.STDOUT, b"last words")])
    assert os.read(talk.wire.ends[0][REQUEST], 999) == b""


@talking
async def test_a_call_that_prints_faster_than_its_reader_waits_in_its_pipe(talk: Talk) -> None:
    talk.taken_at_once = False
    talk.ready()
    call = talk.start()
    os.set_blocking(talk.wire.ends[0][STDOUT], False)

    def is_stopped() -> bool:
        try:
            os.write(talk.wire.ends[0][STDOUT], bytes(1 << 16))
        except BlockingIOError:
            return call.untaken >= CREDIT
        return False

    await until(is_stopped)
    taken = sum(len(data) for _, data in talk.output)
    assert CREDIT <= taken < CREDIT + (1 << 17)
    talk.session.flow.grant(call, taken)
    await until(lambda: sum(len(data) for _, data in talk.output) > taken)
    assert talk.wire.of("grant") == []


@talking
async def test_a_value_that_is_too_large_has_its_call_killed(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    os.write(talk.wire.ends[0][VALUE], b"\xff" * 4 + bytes(2000))
    await until(lambda: call.value_overflowed)
    assert talk.wire.of("kill") == [{"type": "kill", "id": 1}]
    assert (len(call.value), call.has_replied) == (1000, False)


@talking
async def test_a_child_that_died_before_gets_no_call(talk: Talk) -> None:
    talk.ready()
    talk.wire.leave(0)
    for _ in range(3):
        await asyncio.sleep(0)
    call = talk.start()
    assert (call.pipes, call.is_started) == (None, False)
    assert talk.wire.requests.endswith(b"request")
    assert [message.get("line") for message in talk.wire.of("call")] == [None]


@talking
async def test_a_call_whose_child_died_unnoticed_never_started(talk: Talk) -> None:
    talk.ready()
    talk.wire.leave(0)
    call = talk.start()
    assert call.is_started
    talk.ended(signal=9)
    assert call.ended.done()
    assert not call.is_started


@talking
async def test_a_call_that_was_read_before_its_child_died_has_started(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    os.read(talk.wire.ends[0][REQUEST], 999)
    talk.wire.leave(0)
    talk.ended(signal=9)
    assert call.is_started


@talking
async def test_a_waiting_child_holds_a_slot_until_it_is_gone(talk: Talk) -> None:
    talk.session.offer_slots([FakeSlot(7)])
    talk.ready(slot=7)
    talk.gone()
    assert talk.wire.of("release") == [{"type": "release", "slot": 7, "retire": False}]
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0], [1]]
    talk.ready(1, slot=7)
    call = talk.start()
    assert call.slot is not None
    assert call.slot.id == 7


@talking
async def test_a_call_that_ended_before_the_runners_notice_ended_regularly(talk: Talk) -> None:
    talk.session.offer_slots([FakeSlot(7)])
    talk.ready(slot=7)
    call = talk.start()
    os.read(talk.wire.ends[0][REQUEST], 999)
    talk.gone(exit_code=3)
    assert ((await call.ended).exit_code, call.was_lost) == (3, False)
    assert call.is_started
    assert talk.session.release_slot(call)
    assert talk.wire.of("release") == [{"type": "release", "slot": 7, "retire": False}]


@talking
async def test_an_unneeded_child_is_closed_unless_it_has_a_call(talk: Talk) -> None:
    talk.ready()
    talk.hear(type="surplus", line=0, wanted=1)
    assert os.read(talk.wire.ends[0][REQUEST], 9) == b""
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0], [1]]
    talk.gone()
    talk.ready(1)
    call = talk.start()
    talk.hear(type="surplus", line=1, wanted=1)
    assert call.pipes is not None
    assert call.pipes.is_open


@talking
async def test_a_box_that_keeps_no_child_gets_pipes_with_the_next_call(talk: Talk) -> None:
    talk.ready()
    talk.hear(type="surplus", line=0, wanted=0)
    talk.gone()
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0]]
    talk.start()
    assert talk.wire.of("call")[-1].get("line") is None, "the call goes to the runner at once"
    await until(lambda: len(talk.wire.ends) == 2)


@talking
async def test_calls_that_find_no_child_have_more_pipes_handed_over(talk: Talk) -> None:
    for _ in range(5):
        talk.start()
    await until(lambda: len(talk.wire.ends) == 2)
    talk.session.offer_pipes()
    assert [message["lines"] for message in talk.wire.of("lines")] == [[0], [1]]


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_single_use_box_gets_no_pipes_after_its_call(is_ready: bool) -> None:
    async def run() -> None:
        talk = Talk()
        await talk.open(ahead=1, is_single_use=True)
        if is_ready:
            talk.ready()
        talk.start()
        await until(lambda: talk.wire.of("call"))
        talk.session.offer_pipes()
        assert [message["lines"] for message in talk.wire.of("lines")] == [[0]]
        talk.close()

    asyncio.run(run())


def test_a_single_use_box_gets_no_pipes_for_a_call_without_them() -> None:
    async def run() -> None:
        talk = Talk()
        await talk.open(ahead=1, is_single_use=True)
        talk.ready()
        talk.wire.leave(0)
        await until(lambda: not any(child.pipes.is_open for child in talk.session._children._ready.values()))
        talk.start()
        talk.gone()
        await asyncio.sleep(0)
        talk.session.offer_pipes()
        assert [message.get("line") for message in talk.wire.of("call")] == [None]
        assert [message["lines"] for message in talk.wire.of("lines")] == [[0]]
        talk.close()

    asyncio.run(run())


@talking
async def test_the_inputs_of_a_call_follow_on_its_pipes(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    await talk.session.feed(call, b"content")
    assert os.read(talk.wire.ends[0][REQUEST], 999).endswith(b"requestcontent")
    assert talk.wire.requests == b""


async def _call_before_its_child(talk: Talk) -> RunningCall:
    """Call in a box for one call at a time, whose second child is on its way."""
    await talk.open(ahead=1, is_one_at_a_time=True)
    talk.ready()
    talk.start()
    await until(lambda: len(talk.wire.of("lines")) == 2)
    talk.ended()
    call = talk.start()
    assert not call.is_started
    assert [message["id"] for message in talk.wire.of("call")] == [1]
    return call


def waiting_for_a_child(test: Callable[[Talk, RunningCall], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        talk = Talk()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(talk, await _call_before_its_child(talk))
        finally:
            talk.close()

    def wait() -> None:
        asyncio.run(run())

    wait.__name__ = getattr(test, "__name__", "test")
    wait.__module__ = test.__module__
    return wait


@waiting_for_a_child
async def test_consecutive_calls_wait_for_their_child(talk: Talk, call: RunningCall) -> None:
    talk.ready(1)
    assert os.read(talk.wire.ends[1][REQUEST], 999).endswith(b"request")
    assert (call.is_started, call.was_ahead) == (True, False)
    await until(lambda: [message["line"] for message in talk.wire.of("call")] == [0, 1])


@waiting_for_a_child
async def test_a_child_that_does_not_come_is_awaited_briefly(talk: Talk, call: RunningCall) -> None:
    await until(lambda: len(talk.wire.of("call")) == 2)
    talk.ready(1)
    assert "line" not in talk.wire.of("call")[1]
    assert (call.pipes, talk.wire.requests.count(b"request")) == (None, 1)


@waiting_for_a_child
async def test_a_gone_child_is_not_awaited(talk: Talk, call: RunningCall) -> None:
    talk.gone(1)
    assert [message.get("line") for message in talk.wire.of("call")] == [0, None]
    assert call.pipes is None


@waiting_for_a_child
async def test_a_call_killed_while_it_waits_for_its_child_never_runs(talk: Talk, call: RunningCall) -> None:
    talk.session.kill(call)
    assert (await call.ended).killed_by == "engine"
    talk.ready(1)
    assert (call.is_started, len(talk.wire.of("call")), talk.wire.of("kill")) == (False, 1, [])


@waiting_for_a_child
async def test_a_call_lost_while_it_waits_for_its_child_never_ran(talk: Talk, call: RunningCall) -> None:
    talk.session.abandon("test")
    await call.ended
    assert (call.is_started, call.was_lost) == (False, True)


@talking
async def test_calls_go_through_the_runner_without_descriptors(talk: Talk) -> None:
    talk.wire.has_descriptors = False
    talk.ready()
    talk.start()
    talk.start()
    await asyncio.sleep(0)
    assert len(talk.wire.ends) == 1
    assert [message.get("line") for message in talk.wire.of("call")] == [0, None]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ready", "line": 9, "slot": None, "cpu_before": 0.0, "walls": ""},
        {"type": "ready", "line": 0, "slot": 9, "cpu_before": 0.0, "walls": ""},
        {"type": "ready", "line": 0, "slot": None, "cpu_before": 0.0, "walls": "x" * ((1 << 16) + 1)},
        {"type": "gone", "line": 9, **NOTHING},
    ],
)
def test_a_box_that_mentions_unknown_things_is_ended(message: dict[str, Any]) -> None:
    @talking
    async def lying(talk: Talk) -> None:
        talk.hear(**message)
        assert isinstance(talk.session.loss, ProtocolError)

    lying()


@talking
async def test_a_child_that_is_announced_twice_ends_its_box(talk: Talk) -> None:
    talk.ready()
    talk.ready()
    assert isinstance(talk.session.loss, ProtocolError)


@talking
async def test_a_box_cannot_send_the_bytes_of_a_call_on_direct_pipes(talk: Talk) -> None:
    talk.ready()
    call = talk.start()
    talk.session.received(b"\0\0\0\x0b\2\0\0\0\1\3" + b"forge")
    assert isinstance(talk.session.loss, ProtocolError)
    assert call.was_lost


def test_no_child_is_awaited_from_a_box_that_keeps_none() -> None:
    async def run() -> None:
        talk = Talk()
        await talk.open(ahead=2, is_one_at_a_time=True)
        talk.start()
        await until(lambda: len(talk.wire.ends) == 2)
        talk.hear(type="started", id=1, slot=None, ahead=False)
        talk.ended()
        talk.ready()
        talk.hear(type="surplus", line=0, wanted=0)
        talk.gone()
        talk.start()
        assert [message["id"] for message in talk.wire.of("call")] == [1, 2]
        talk.close()

    asyncio.run(run())
