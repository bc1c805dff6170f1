"""Messages that only a box without a started call may send end the box after a call has started."""

from __future__ import annotations

import pytest

from sandbox.errors import ProtocolError
from sandbox.protocol.frames import Stream, pack_message
from tests.unit.protocol.test_conversation import Talk, chunk, ended, started, talking

FAULT = pack_message({"type": "fault", "layer": "seccomp", "reason": "haha"})


@pytest.mark.parametrize("before", [started(), started() + ended()], ids=["while it runs", "when it has ended"])
def test_isolation_cannot_fail_after_a_call_has_started(before: bytes) -> None:
    @talking
    async def late(talk: Talk) -> None:
        call, next_call = talk.start(), talk.start()
        talk.hear(before + FAULT)
        assert isinstance(talk.session.loss, ProtocolError)
        assert talk.session.fault is None
        await call.ended
        await next_call.ended
        assert next_call.was_lost

    late()


def test_the_isolation_of_a_call_is_described_once() -> None:
    @talking
    async def twice(talk: Talk) -> None:
        call = talk.start()
        talk.hear(started() + chunk(b'{"walls":{}}', Stream.WALLS) + chunk(b"!", Stream.WALLS))
        assert isinstance(talk.session.loss, ProtocolError)
        assert bytes(call.walls) == b'{"walls":{}}'

    twice()
