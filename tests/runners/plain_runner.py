"""A runner without isolation, on its standard input and output, as any program could use it, or on a socket."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sandbox.protocol import frames
from sandbox.protocol.frames import Chunk, FrameReader, Stream
from sandbox.protocol.messages import BoxFault, Ended, Hello, Reply, Returned, Started, parse_message, parse_reply
from tests.checkout import ROOT

RUNNER: Final = ROOT / "runners" / "python"
PATIENCE_SECONDS: Final = 60
CREDIT: Final = 1 << 20


def plain_plan(folder: Path | str, **changes: Any) -> dict[str, Any]:
    """Return the engine's first message for a box without isolation."""
    call: dict[str, Any] = {
        "namespaces": [],
        "required": [],
        "user": None,
        "outside": None,
        "workplace": None,
        "folder": str(folder),
        "landlock": None,
        "filter": "",
        "limits": {"open_files": 256, "file_size": 1 << 30, "cpu": 60},
        "cpus": [],
        "watch": None,
    }
    call.update(changes.pop("call", {}))
    return {
        "type": "open",
        "protocol": frames.PROTOCOL,
        "preload": [],
        "ahead": 0,
        "box": None,
        "slots": False,
        "call": call,
        **changes,
    }


@dataclass
class Seen:
    """All frames about a call, by kind."""

    started: Started | None = None
    returned: Returned | None = None
    ended: Ended | None = None
    streams: dict[Stream, bytearray] = field(default_factory=lambda: {stream: bytearray() for stream in Stream})

    @property
    def reply(self) -> Reply:
        """The reply of the tool's process."""
        value = bytes(self.streams[Stream.VALUE])
        assert int.from_bytes(value[:4], "big") == len(value) - 4
        return parse_reply(value[4:])

    @property
    def walls(self) -> dict[str, Any]:
        """The isolation as it was measured."""
        record: dict[str, Any] = json.loads(self.streams[Stream.WALLS])
        return record

    @property
    def stdout(self) -> bytes:
        return bytes(self.streams[Stream.STDOUT])


class Runner:
    """The process of a runner, and the calls that it was given."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket | None) -> None:
        self._process = process
        self._channel = channel
        self._reader = FrameReader()
        self._frames: list[bytes | Chunk] = []
        self.calls: dict[int, Seen] = {}

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, message: Mapping[str, Any]) -> None:
        self.send(frames.pack_message(message))

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send bytes to the runner; only a socket carries descriptors."""
        if self._channel is not None:
            sent = socket.send_fds(self._channel, [data[:1]], descriptors)
            self._channel.sendall(data[sent:])
            return
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def hear(self) -> Hello | BoxFault:
        """Return the runner's answer to `open`."""
        said = parse_message(_message(self._next()))
        assert isinstance(said, Hello | BoxFault)
        return said

    def call(self, id: int, source: str, *, credit: int = CREDIT, follows: bytes = b"", **request: Any) -> None:
        """Have the function `tool` of this source called; `follows` is sent with the request, behind it."""
        self.say({"type": "call", "id": id, "credit": credit, "limits": request.pop("limits", {})})
        self.calls[id] = Seen()
        asked = {
            "source": source,
            "filename": "tool.py",
            "entry": "tool",
            "arguments": {},
            "positional": [],
            "environment": {"PATH": os.defpath},
            "value_limit": 1 << 20,
            **request,
        }
        text = json.dumps(asked).encode()
        self.send(frames.pack_request(id, len(text).to_bytes(8, "big") + text + follows))

    def run(self, source: str, **request: Any) -> Seen:
        """Run a call from its start to its end."""
        id = len(self.calls) + 1
        self.call(id, source, **request)
        return self.wait(id)

    def wait(self, id: int) -> Seen:
        """Take frames until the call has ended."""
        while self.calls[id].ended is None:
            self.take()
        return self.calls[id]

    def wait_for(self, id: int, stream: Stream, data: bytes) -> None:
        """Take frames until these bytes have come."""
        while data not in self.calls[id].streams[stream]:
            self.take()

    def take(self) -> None:
        """Note the next frame about a call."""
        said = self._next()
        if isinstance(said, Chunk):
            self.calls[said.call].streams[said.stream] += said.data
            return
        message = parse_message(said)
        assert isinstance(message, Started | Returned | Ended)
        seen = self.calls[message.id]
        if isinstance(message, Started):
            seen.started = message
        elif isinstance(message, Returned):
            seen.returned = message
        else:
            seen.ended = message

    def next_message(self) -> bytes:
        """Return the next frame, which must be a message."""
        return _message(self._next())

    def hang_up(self) -> int:
        """Close the channel, and wait for the runner's end."""
        hung_up = self._process.stdin if self._channel is None else self._channel
        assert hung_up is not None
        hung_up.close()
        return self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """Kill the runner after a failed test."""
        self._process.kill()

    def leave_unread(self) -> None:
        """Wait until a frame is there, and leave it unread."""
        self._wait_for_more()

    def _next(self) -> bytes | Chunk:
        while not self._frames:
            data = os.read(self._wait_for_more(), 1 << 16)
            assert data, "the runner is gone"
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def _wait_for_more(self) -> int:
        """Return the descriptor to read from, when something is there."""
        heard = self._process.stdout if self._channel is None else self._channel
        assert heard is not None
        ready, _, _ = select.select([heard], [], [], PATIENCE_SECONDS)
        assert ready, "the runner says nothing"
        return heard.fileno()


def _message(frame: bytes | Chunk) -> bytes:
    assert isinstance(frame, bytes)
    return frame


@contextmanager
def start_runner(plan: Mapping[str, Any], *, python: str = sys.executable) -> Iterator[Runner]:
    """Start a runner with this plan, and end it afterwards."""
    command = [python, "-I", "-S", "-B", str(RUNNER), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as process:
        yield from _open(Runner(process, None), plan)


@contextmanager
def start_runner_on_a_socket(plan: Mapping[str, Any]) -> Iterator[Runner]:
    """Start a runner on a channel that can carry descriptors."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", "-B", str(RUNNER), str(theirs.fileno())]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd="/") as process:
        theirs.close()
        yield from _open(Runner(process, ours), plan)


def _open(runner: Runner, plan: Mapping[str, Any]) -> Iterator[Runner]:
    try:
        runner.say(plan)
        yield runner
        runner.hang_up()
    finally:
        runner.kill()
