"""A session with a runner: allowed orders of messages, granted bytes, and an end for every call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import BoxLost, ProtocolError
from sandbox.protocol.flow_control import CREDIT
from sandbox.protocol.frames import Chunk, FrameReader, Stream, pack_chunk, pack_message
from sandbox.protocol.messages import LayerFailure
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.session import RunnerSession
from sandbox.protocols import DirectPipes, Receiver
from sandbox.resources import read_authoring
from sandbox.testing.fake_backend import FakeSlot
from tests import virtual_time

HELLO: Final[dict[str, Any]] = {
    "type": "hello",
    "protocol": 1,
    "python": "3",
    "implementation": "x",
    "failed": {},
    "refused": {},
}
ENDED: Final[dict[str, Any]] = {
    "type": "ended",
    "exit_code": 0,
    "signal": None,
    "cpu_s": 0.0,
    "max_rss": 0,
    "bytes_free": None,
    "inodes_free": None,
    "killed_by": None,
}


def hello(**fields: object) -> bytes:
    return pack_message(HELLO | fields)


def started(id: int = 1, *, slot: int | None = None) -> bytes:
    return pack_message({"type": "started", "id": id, "slot": slot, "ahead": False})


def returned(id: int = 1) -> bytes:
    return pack_message({"type": "returned", "id": id, "cpu_before": 0.5})


def ended(id: int = 1, **fields: object) -> bytes:
    return pack_message(ENDED | {"id": id} | fields)


def chunk(data: bytes, stream: Stream = Stream.STDOUT, *, id: int = 1) -> bytes:
    return pack_chunk(Chunk(id, stream, data))


class Wire:
    """A channel that records the engine's messages."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.requests = b""
        self._reader = FrameReader()

    def listen(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        for frame in self._reader.feed(data):
            if isinstance(frame, Chunk):
                self.requests += frame.data
            else:
                self.said.append(json.loads(frame))

    async def all_sent(self) -> None:
        return

    def open_pipes(self) -> DirectPipes | None:
        return None

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.said if message["type"] == kind]


class Talk:
    """A session that said hello, and one call in it."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.session = RunnerSession(self.wire)
        self.output: list[tuple[Stream, bytes]] = []
        self.taken_at_once = True

    async def open(self) -> None:
        opening = asyncio.create_task(self.session.open({}, preload=(), ahead=0))
        await asyncio.sleep(0)
        self.hear(hello())
        await opening

    def start(self, *, value_limit: int = 100) -> RunningCall:
        return self.session.start(b"{}", limits={}, value_limit=value_limit, take=self._take)

    def hear(self, data: bytes) -> None:
        self.session.received(data)

    def _take(self, stream: Stream, data: bytes) -> int:
        self.output.append((stream, data))
        return len(data) if self.taken_at_once else 0


def talking(test: Callable[[Talk], Awaitable[None]]) -> Callable[[], None]:
    """Run the test in an open session, and close it."""

    async def talk() -> None:
        open_talk = Talk()
        await open_talk.open()
        await test(open_talk)
        open_talk.session.close()

    def run() -> None:
        virtual_time.run(talk())

    run.__name__ = getattr(test, "__name__", "test")
    run.__module__ = test.__module__
    return run


def opened_with(data: bytes) -> Coroutine[Any, Any, object]:
    async def opening() -> object:
        wire = Wire()
        session = RunnerSession(wire)
        outputs = {"files": 1, "bytes": 2}
        opening_box = session.open({"box": {}}, preload=("json",), environment={"LANG": "C"}, ahead=3, outputs=outputs)
        answer = asyncio.create_task(opening_box)
        await asyncio.sleep(0)
        assert wire.said == [
            {
                "type": "open",
                "protocol": 1,
                "preload": ["json"],
                "environment": {"LANG": "C"},
                "ahead": 3,
                "single_use": False,
                "outputs": outputs,
                "kit": read_authoring(),
                "box": {},
            }
        ]
        session.received(data)
        return await answer

    return opening()


def test_a_box_that_says_hello_is_open() -> None:
    assert getattr(virtual_time.run(opened_with(hello(python="3.9"))), "python", None) == "3.9"


def test_a_fault_names_the_wall() -> None:
    with pytest.raises(LayerFailure) as fault:
        virtual_time.run(opened_with(pack_message({"type": "fault", "layer": "seccomp", "reason": "EPERM"})))
    assert (fault.value.layer, fault.value.reason) == ("seccomp", "EPERM")


@pytest.mark.parametrize(
    "data",
    [
        hello(protocol=2),
        started(),
        ended(),
        chunk(b"x"),
        b"not a frame at all",
        pack_message({"type": "open"}),
        hello(protocol=10**40),
    ],
    ids=["another protocol", "started", "ended", "a chunk", "no frame", "what only engines say", "a huge protocol"],
)
def test_a_box_that_sends_anything_before_hello_is_lost(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        virtual_time.run(opened_with(data))


@talking
async def test_a_failure_to_isolate_later_ends_the_box_and_is_reported(talk: Talk) -> None:
    call = talk.start()
    talk.hear(pack_message({"type": "fault", "layer": "user_namespace", "reason": "no space left"}))
    assert talk.session.fault is not None
    assert talk.session.fault.layer == "user_namespace"
    assert (await call.ended, call.was_lost)[1]


@talking
async def test_a_call_is_sent_completely_with_its_size_ahead(talk: Talk) -> None:
    call = talk.session.start(b"r" * 600_000, limits={"cpu": 2}, value_limit=1, take=lambda *_: 0)
    assert talk.wire.of("call") == [{"type": "call", "id": call.id, "credit": CREDIT, "limits": {"cpu": 2}}]
    assert talk.wire.requests == (600_000).to_bytes(8, "big") + b"r" * 600_000


@talking
async def test_a_call_goes_from_started_over_its_bytes_to_ended(talk: Talk) -> None:
    call = talk.start()
    assert talk.session.running == 1
    talk.hear(started() + chunk(b"{}", Stream.WALLS) + chunk(b"out") + chunk(b"err", Stream.STDERR))
    talk.hear(chunk(b"val", Stream.VALUE) + chunk(b"ue", Stream.VALUE) + ended(exit_code=3))
    assert (await call.ended).exit_code == 3
    assert (bytes(call.walls), bytes(call.value)) == (b"{}", b"value")
    assert talk.output == [(Stream.STDOUT, b"out"), (Stream.STDERR, b"err")]
    assert (talk.session.running, call.was_lost, talk.session.loss) == (0, False, None)


@pytest.mark.parametrize(
    "said",
    [
        started(9),
        started() + started(),
        started(slot=0),
        ended(),
        ended(9),
        started() + ended() + ended(),
        started() + ended() + chunk(b"late"),
        chunk(b"early"),
        returned(),
        started() + returned(9),
        started() + returned() + returned(),
        started() + ended() + returned(),
        started() + chunk(b"x", id=9),
        started() + chunk(b"x", Stream.REQUEST),
        started() + chunk(b""),
        started() + chunk(b"w" * 70_000, Stream.WALLS),
        hello(),
        b"\0\0\0\0\0",
        pack_message({"type": "started", "id": 1}),
    ],
    ids=[
        "started for no call",
        "started twice",
        "a slot that was never lent",
        "ended before it started",
        "ended for no call",
        "ended twice",
        "bytes after the end",
        "bytes before the start",
        "returned before it started",
        "returned for no call",
        "returned twice",
        "returned after the end",
        "bytes of no call",
        "a request from a box",
        "no bytes",
        "walls without end",
        "hello twice",
        "no frame",
        "no message",
    ],
)
def test_a_message_out_of_order_ends_the_box_and_every_call_in_it(said: bytes) -> None:
    @talking
    async def out_of_order(talk: Talk) -> None:
        calls = [talk.start(), talk.session.start(b"", limits={}, value_limit=1, take=lambda *_: 0)]
        told: list[bool] = []
        talk.session.on_loss = lambda: told.append(True)
        talk.hear(said)
        assert isinstance(talk.session.loss, ProtocolError)
        assert told == [True]
        await asyncio.gather(*(call.ended for call in calls))
        assert talk.session.running == 0
        assert calls[1].was_lost

    out_of_order()


@talking
async def test_a_waiting_caller_gets_the_whole_reply_or_the_end(talk: Talk) -> None:
    calls = [talk.start(), talk.start(), talk.start()]
    talk.hear(started(1) + started(2) + returned(1) + ended(2))
    talk.session.closed()
    for call in calls:
        await call.replied
    assert [call.has_returned for call in calls] == [True, False, False]
    assert [call.was_lost for call in calls] == [True, False, True]


@talking
async def test_a_call_killed_before_its_child_exists_never_started(talk: Talk) -> None:
    call = talk.start()
    talk.session.kill(call)
    assert talk.wire.of("kill") == [{"type": "kill", "id": call.id}]
    talk.hear(ended(exit_code=None, killed_by="engine"))
    assert (await call.ended).killed_by == "engine"
    assert talk.session.loss is None


@talking
async def test_messages_after_the_end_are_ignored(talk: Talk) -> None:
    call = talk.start()
    talk.hear(started())
    talk.session.abandon("enough")
    talk.hear(chunk(b"late") + chunk(b"late", Stream.VALUE) + ended())
    assert (await call.ended).exit_code is None
    assert (talk.output, bytes(call.value), call.was_lost) == ([], b"", True)


@talking
async def test_the_first_loss_is_the_one_that_is_reported(talk: Talk) -> None:
    talk.session.abandon("first")
    talk.session.closed()
    assert str(talk.session.loss) == "first"
    with pytest.raises(BoxLost, match="first"):
        talk.start()


@talking
async def test_a_box_that_closes_its_channel_loses_its_calls(talk: Talk) -> None:
    call = talk.start()
    talk.session.closed()
    await call.ended
    assert call.was_lost


# Flow control


@talking
async def test_consumed_bytes_are_granted_again_in_few_messages(talk: Talk) -> None:
    talk.start()
    talk.hear(started())
    for _ in range(64):
        talk.hear(chunk(b"x" * 65536))
    granted = [message["bytes"] for message in talk.wire.of("grant")]
    assert sum(granted) == 64 * 65536
    assert len(granted) <= 16


@talking
async def test_the_runner_is_never_owed_as_much_as_its_credit(talk: Talk) -> None:
    call = talk.start()
    talk.hear(started())
    for size in (1, 1000, 200_000, 70_000, 262_143, 5):
        talk.hear(chunk(b"x" * size))
        assert call.owed < CREDIT // 4


@talking
async def test_unconsumed_bytes_are_not_granted(talk: Talk) -> None:
    talk.taken_at_once = False
    call = talk.start()
    talk.hear(started() + b"".join(chunk(b"x" * 65536) for _ in range(16)))
    assert talk.wire.of("grant") == []
    talk.session.flow.grant(call, 16 * 65536)
    assert [message["bytes"] for message in talk.wire.of("grant")] == [CREDIT]


@talking
async def test_a_box_that_sends_far_more_than_granted_is_ended(talk: Talk) -> None:
    talk.taken_at_once = False
    call = talk.start()
    talk.hear(started())
    sent = 0
    while talk.session.loss is None and sent < 16 * CREDIT:
        talk.hear(chunk(b"x" * 65536))
        sent += 65536
    assert isinstance(talk.session.loss, ProtocolError)
    assert sent < 6 * CREDIT
    await call.ended


@talking
async def test_a_consumed_flood_keeps_nothing(talk: Talk) -> None:
    call = talk.start()
    talk.hear(started())
    for _ in range(2000):
        talk.hear(chunk(b"x" * 65536))
        talk.output.clear()
    assert (talk.session.loss, call.untaken) == (None, 0)


@talking
async def test_nothing_is_granted_to_an_ended_call(talk: Talk) -> None:
    talk.taken_at_once = False
    call = talk.start()
    talk.hear(started() + b"".join(chunk(b"x" * 65536) for _ in range(16)) + ended())
    talk.session.flow.grant(call, CREDIT)
    assert talk.wire.of("grant") == []


@talking
async def test_a_value_over_its_limit_is_cut_and_its_call_killed_once(talk: Talk) -> None:
    call = talk.start(value_limit=10)
    talk.hear(started() + chunk(b"0123456789", Stream.VALUE))
    assert talk.wire.of("kill") == []
    talk.hear(chunk(b"x", Stream.VALUE) + chunk(b"x" * 1000, Stream.VALUE))
    assert (bytes(call.value), call.value_overflowed) == (b"0123456789", True)
    assert len(talk.wire.of("kill")) == 1


def item(data: bytes) -> bytes:
    """Pack an item, as before a reply."""
    return (1 << 31 | len(data)).to_bytes(4, "big") + data


@talking
async def test_items_are_delivered_when_complete_before_the_reply(talk: Talk) -> None:
    items: list[bytes] = []
    call = talk.session.start(
        b"", limits={}, value_limit=100, take=lambda *_: 0, take_item=lambda each, _: items.append(each)
    )
    talk.hear(started())
    sent = item(b"1") + item(b"") + item(b'"abc"') + (2).to_bytes(4, "big") + b"{}"
    for number in range(len(sent)):
        talk.hear(chunk(sent[number : number + 1], Stream.VALUE))
    assert items == [b"1", b"", b'"abc"']
    assert (bytes(call.value), call.value_overflowed) == (b"\0\0\0\x02{}", False)


@talking
async def test_items_without_a_follower_are_dropped(talk: Talk) -> None:
    call = talk.start()
    talk.hear(started() + chunk(item(b"1") + item(b"2") + b"\0\0\0\x01x", Stream.VALUE))
    assert bytes(call.value) == b"\0\0\0\x01x"


def _append(items: list[bytes], data: bytes, _: object) -> None:
    items.append(data)


@talking
async def test_reading_stops_at_items_that_no_follower_takes(talk: Talk) -> None:
    """Small items stop the reading too, because an item costs more than its bytes."""
    for id, data in enumerate((b"x" * 250_000, b""), 1):
        grants: list[Callable[[], None]] = []
        taken = partial(_append_grant, grants)
        talk.session.start(b"", limits={}, value_limit=1 << 23, take=lambda *_: 0, take_item=taken)
        talk.hear(started(id))
        while not talk.wire.of("hold"):
            talk.hear(chunk(item(data), Stream.VALUE, id=id))
        assert talk.wire.of("hold") == [{"type": "hold", "id": id, "on": True}]
        assert CREDIT <= len(grants) * (len(data) + 256) < CREDIT + 250_300
        for grant in grants:
            grant()
        assert [said["on"] for said in talk.wire.of("hold")] == [True, False]
        talk.wire.said.clear()


def _append_grant(grants: list[Callable[[], None]], _: bytes, grant: Callable[[], None]) -> None:
    grants.append(grant)


@talking
async def test_too_many_or_too_large_items_have_their_call_killed(talk: Talk) -> None:
    cases = [(item(b"x" * 30) * 10, 100, 2), (item(b"x" * 100), 100, 0), (item(b"") * 20_000, 1 << 20, 10_000)]
    for id, (data, limit, most) in enumerate(cases, 1):
        items: list[bytes] = []
        take = partial(_append, items)
        call = talk.session.start(b"", limits={}, value_limit=limit, take=lambda *_: 0, take_item=take)
        talk.hear(started(id) + chunk(data, Stream.VALUE, id=id))
        assert (call.value_overflowed, len(items), len(talk.wire.of("kill"))) == (True, most, id)
        assert len(call.value) <= limit


@given(st.lists(st.binary(max_size=20), max_size=8), st.binary(max_size=20), st.lists(st.integers(1, 9), max_size=40))
def test_items_in_any_pieces_are_the_same(data: list[bytes], reply: bytes, sizes: list[int]) -> None:
    async def hear() -> tuple[list[bytes], bytes]:
        talk, items = Talk(), list[bytes]()
        await talk.open()
        call = talk.session.start(
            b"", limits={}, value_limit=999, take=lambda *_: 0, take_item=lambda each, _: items.append(each)
        )
        talk.hear(started())
        sent = b"".join(map(item, data)) + len(reply).to_bytes(4, "big") + reply
        for size in [*sizes, len(sent)]:
            piece, sent = sent[:size], sent[size:]
            if piece:
                talk.hear(chunk(piece, Stream.VALUE))
        return items, bytes(call.value)

    assert virtual_time.run(hear()) == (data, len(reply).to_bytes(4, "big") + reply)


# Slots


@talking
async def test_a_slot_serves_one_call_after_the_other(talk: Talk) -> None:
    talk.session.offer_slots([FakeSlot(0)])
    assert talk.wire.of("slots") == [{"type": "slots", "slots": [[0, 0]]}]
    for id in (1, 2):
        call = talk.start()
        talk.hear(started(id, slot=0) + ended(id))
        assert call.slot is not None
        assert talk.session.release_slot(call)
        assert talk.wire.of("release")[-1] == {"type": "release", "slot": 0, "retire": False}
    assert talk.session.loss is None


@pytest.mark.parametrize(
    "first", [started(1, slot=0), started(1, slot=0) + ended(1)], ids=["running", "not given back"]
)
def test_a_slot_that_is_not_free_ends_the_box(first: bytes) -> None:
    @talking
    async def take_twice(talk: Talk) -> None:
        talk.session.offer_slots([FakeSlot(0)])
        talk.start()
        talk.start()
        talk.hear(first + started(2, slot=0))
        assert isinstance(talk.session.loss, ProtocolError)

    take_twice()


class Spent(FakeSlot):
    def renew(self) -> bool:
        return False


@talking
async def test_a_slot_that_cannot_be_renewed_is_retired_and_closed(talk: Talk) -> None:
    slot = Spent(0)
    talk.session.offer_slots([slot])
    call = talk.start()
    talk.hear(started(slot=0) + ended())
    assert not talk.session.release_slot(call)
    assert talk.wire.of("release") == [{"type": "release", "slot": 0, "retire": True}]
    assert slot.is_closed


@talking
async def test_closing_releases_every_slot(talk: Talk) -> None:
    slots = [FakeSlot(id) for id in range(3)]
    talk.session.offer_slots(slots)
    call = talk.start()
    talk.hear(started(slot=1))
    talk.session.close()
    assert all(slot.is_closed for slot in slots)
    await call.ended
    assert talk.session.release_slot(call)


# Everything

messages = st.one_of(
    st.builds(started, st.integers(0, 3), slot=st.none() | st.integers(0, 2)),
    st.builds(ended, st.integers(0, 3)),
    st.builds(returned, st.integers(0, 3)),
    st.builds(
        lambda data, stream, id: chunk(data, stream, id=id),
        st.binary(max_size=64),
        st.sampled_from(Stream),
        st.integers(0, 3),
    ),
    st.just(hello()),
    st.binary(max_size=16),
)


@pytest.mark.slow
@given(st.lists(messages, max_size=12), st.lists(st.integers(1, 40), max_size=5))
def test_any_messages_raise_nothing_and_every_call_ends(said: list[bytes], cuts: list[int]) -> None:
    @talking
    async def hear_it(talk: Talk) -> None:
        talk.session.offer_slots([FakeSlot(0), FakeSlot(1)])
        calls = [talk.start(value_limit=50), talk.start(value_limit=50)]
        talk.session.kill(calls[1])
        data = b"".join(said)
        for size in (*cuts, len(data)):
            talk.hear(data[:size])
            data = data[size:]
        talk.session.closed()
        for call in calls:
            await call.ended
            assert len(call.value) <= 50
            talk.session.release_slot(call)
        assert talk.session.running == 0

    hear_it()


def _started_with_files(talk: Talk, take: Callable[[bytes], int]) -> RunningCall:
    call = talk.session.start(b"{}", limits={}, value_limit=100, take=lambda *_: 0, take_files=take)
    talk.hear(started(call.id))
    return call


@talking
async def test_files_are_granted_as_they_are_consumed(talk: Talk) -> None:
    taken: list[bytes] = []

    def take(data: bytes) -> int:
        taken.append(data)
        return 0

    call = _started_with_files(talk, take)
    talk.hear(pack_chunk(Chunk(call.id, Stream.FILES, b"x" * 1000)))
    assert (taken, talk.wire.of("grant"), call.files_untaken) == ([b"x" * 1000], [], 1000)
    talk.session.flow.grant_files(call, 600)
    assert talk.wire.of("grant") == [{"type": "grant", "id": call.id, "bytes": 600, "of": "files"}]
    assert call.files_untaken == 400


@talking
async def test_unrequested_files_end_the_box(talk: Talk) -> None:
    call = _started_with_files(talk, lambda _: 0)
    for _ in range(21):
        talk.hear(pack_chunk(Chunk(call.id, Stream.FILES, b"x" * (1 << 18))))
    assert "bytes of files beyond its credit" in str(talk.session.loss)


@talking
async def test_the_inputs_of_a_call_follow_once_a_child_has_it(talk: Talk) -> None:
    call = talk.session.start(b"{}", limits={}, value_limit=100, take=lambda *_: 0)
    feeding = asyncio.create_task(talk.session.feed(call, b"content"))
    await asyncio.sleep(0)
    assert b"content" not in talk.wire.requests
    talk.hear(started(call.id))
    await feeding
    assert bytes(talk.wire.requests).endswith(b"{}content")


@talking
async def test_nothing_follows_for_an_ended_call(talk: Talk) -> None:
    call = talk.session.start(b"{}", limits={}, value_limit=100, take=lambda *_: 0)
    feeding = asyncio.create_task(talk.session.feed(call, b"content"))
    talk.session.abandon("test")
    await feeding
    assert b"content" not in talk.wire.requests
