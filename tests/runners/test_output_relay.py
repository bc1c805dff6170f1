"""The last output of a call is passed on whole, however long the relay waits for a processor."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from box.channel import SocketChannel, open_channel
from sandbox.protocol.frames import Chunk, FrameReader, Stream
from zygote import output_relay
from zygote.engine_link import READ_SIZE, EngineLink
from zygote.poll_loop import PollLoop

CALL: Final = 7
HELD: Final = 10 * READ_SIZE


def test_pipes_of_a_dead_call_are_drained_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr(output_relay, "time", SimpleNamespace(monotonic=lambda: next(hours)))
    near, far = os.pipe2(os.O_NONBLOCK)
    fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, 1 << 20)
    assert os.write(far, bytes(HELD)) == HELD
    os.close(far)
    assert sum(len(chunk.data) for chunk in _passed_on(near)) == HELD
    os.close(near)


def test_a_reply_is_not_read_before_the_isolation_is_known() -> None:
    """A late event of a dead child may be taken for one of the child that has its descriptors now."""
    (output, output_end), (value, value_end) = os.pipe(), os.pipe()
    child: Any = SimpleNamespace(outputs=[(output, Stream.STDOUT)], value=value, spent=None)
    waiting, outlet = PollLoop(), EngineLink(cast(SocketChannel, None))
    carrying = output_relay.OutputRelay(waiting, outlet, on_early_output=lambda _: None)
    for _ in range(2):
        carrying.attend(child)
        assert (waiting.waits_for(output), waiting.waits_for(value)) == (True, False)
    carrying.pace(child, {"type": "hold", "on": False})
    assert not waiting.waits_for(value)
    child.spent = 0.0
    carrying.attend(child)
    assert waiting.waits_for(value)
    for descriptor in (output, output_end, value, value_end):
        os.close(descriptor)


def _passed_on(output: int) -> list[Chunk]:
    """Return the chunks for a call that is over, whose output is there."""
    theirs, ours = socket.socketpair()
    channel, heard = open_channel(str(theirs.detach())), bytearray()
    assert isinstance(channel, SocketChannel)
    reading = threading.Thread(target=lambda: heard.extend(_all_of(ours)))
    reading.start()
    outlet: Any = EngineLink(channel)
    loop: Any = None  # the relay waits for nothing after the end
    nothing, end = os.pipe2(os.O_NONBLOCK)
    child: Any = SimpleNamespace(files=nothing, outputs=[(output, Stream.STDOUT)], value=None)
    output_relay.OutputRelay(loop, outlet, on_early_output=lambda _: None).empty(child, CALL)
    outlet.flush()
    os.close(channel.fileno())
    channel._socket.detach()
    reading.join()
    ours.close()
    os.close(nothing)
    os.close(end)
    return [frame for frame in FrameReader().feed(bytes(heard)) if isinstance(frame, Chunk)]


def _all_of(end: socket.socket) -> bytes:
    with end.makefile("rb") as file:
        return file.read()
