"""A box that misuses its direct pipes, in any order and on any descriptor, ends every call and leaves no descriptor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.backends.pipes import ChildPipes
from sandbox.protocol.frames import Chunk, Stream, pack_chunk, pack_message
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.session import RunnerSession
from sandbox.protocols import Receiver
from sandbox.testing.fake_backend import FakeSlot

MOST_VALUE: Final = 50
HELLO: Final = {"type": "hello", "protocol": 1, "python": "3", "implementation": "x"}
NOTHING: Final = dict.fromkeys(("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free", "killed_by"))
REPLY: Final = b"\0\0\0\2{}"


@dataclass(frozen=True, slots=True)
class Act:
    """An act of the box, or of the engine (`call`); `back` counts pipes, or calls, from the newest on."""

    what: str
    back: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


READY: Final = Act("ready", fields={"slot": None})
CALL: Final = Act("call")

back = st.sampled_from([0, 0, 0, 1, 1, 2, -1])
acts = st.one_of(
    st.just(CALL),
    st.builds(Act, st.just("leave"), back),
    st.builds(Act, st.just("surplus"), back, st.builds(dict, wanted=st.sampled_from([0, 0, 1, 1 << 40]))),
    st.builds(Act, st.just("ready"), back, st.builds(dict, slot=st.sampled_from([None, None, None, 0, 1, 2]))),
    st.builds(Act, st.sampled_from(["gone", "ended"]), back, st.just(NOTHING)),
    st.builds(Act, st.just("started"), back, st.just({"slot": None, "ahead": True})),
    st.builds(Act, st.just("returned"), back, st.just({"cpu_before": 0})),
    st.builds(Act, st.just("chunk"), back, st.builds(dict, stream=st.sampled_from(Stream))),
    st.builds(
        Act,
        st.just("write"),
        back,
        st.builds(dict, pipe=st.integers(1, 3), data=st.binary(max_size=80) | st.just(REPLY)),
    ),
)


class Box:
    """A channel that keeps the far ends it is handed, as a hostile runner would."""

    def __init__(self) -> None:
        self.ends: list[list[int]] = []
        self.opened = 0
        self.calls = 0
        self.receiver: Receiver

    def listen(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self.ends += [list(descriptors[start : start + 4]) for start in range(0, len(descriptors), 4)]

    async def all_sent(self) -> None:
        return

    def open_pipes(self) -> ChildPipes:
        self.opened += 1
        return ChildPipes(self.opened - 1)

    def act(self, act: Act) -> None:
        """Do one act."""
        line, call = max(len(self.ends) - 1 - act.back, 0), max(self.calls - act.back, 0)
        if act.what == "leave":
            self.leave(line)
        elif act.what == "write":
            self._write(line, **act.fields)
        elif act.what == "chunk":
            self.receiver.received(pack_chunk(Chunk(call, act.fields["stream"], b"x")))
        elif act.what in ("started", "returned", "ended"):
            self.receiver.received(pack_message({"type": act.what, "id": call} | act.fields))
        elif act.what != "call":
            told = {"ready": {"cpu_before": 0, "walls": ""}}.get(act.what, {})
            self.receiver.received(pack_message({"type": act.what, "line": line} | act.fields | told))

    def leave(self, line: int) -> None:
        if line < len(self.ends):
            for end in self.ends[line]:
                os.close(end)
            self.ends[line] = []

    def _write(self, line: int, *, pipe: int, data: bytes) -> None:
        try:
            if line < len(self.ends) and self.ends[line]:
                os.write(self.ends[line][pipe], data)
        except BrokenPipeError:  # the pipe was closed
            return


@pytest.mark.slow
@given(st.sampled_from([[], [READY], [READY, CALL]]), st.lists(acts, min_size=3, max_size=25))
def test_misuse_of_direct_pipes_ends_every_call_and_leaves_nothing(begun: list[Act], done: list[Act]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(_converse([*begun, *done]))
    assert len(os.listdir("/proc/self/fd")) == before


async def _converse(done: list[Act]) -> None:
    box, raised = Box(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: raised.append(told))
    session = await _opened(box)
    calls: list[RunningCall] = []
    for act in done:
        if act.what == "call" and session.loss is None:
            calls.append(session.start(b"{}", limits={}, value_limit=MOST_VALUE, take=lambda _, data: len(data)))
            box.calls = calls[-1].id
        box.act(act)
        await asyncio.sleep(0)
    session.closed()
    for call in calls:
        await call.ended
        assert len(call.value) <= MOST_VALUE
        session.release_slot(call)
    assert session.running == 0
    session.close()
    for line in range(len(box.ends)):
        box.leave(line)
    assert raised == []


async def _opened(box: Box) -> RunnerSession:
    session = RunnerSession(box)
    opening = asyncio.create_task(session.open({}, ahead=2))
    await asyncio.sleep(0)
    session.received(pack_message(HELLO | {"failed": {}, "refused": {}}))
    await opening
    session.offer_slots([FakeSlot(0), FakeSlot(1)])
    session.offer_pipes()
    return session
