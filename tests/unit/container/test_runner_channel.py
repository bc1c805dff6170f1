"""The channel past the daemon: used where a runner offers it, never by a lie, with the stream as its fallback.

The daemon belongs to this test, and carries bytes between a connection and a process in place of a container's init.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pytest

from sandbox.backends.container.docker.address import Address
from sandbox.backends.container.docker.attach import AttachStream, attach
from sandbox.backends.container.fast_channel import RunnerChannel, open_runner_channel
from sandbox.errors import BackendUnavailable
from sandbox.protocol.frames import pack_message
from tests.runners.plain_runner import RUNNER, plain_plan

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0
OFFER_BYTES: Final = 12
INIT: Final = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-I', '-S', '-B', *sys.argv[1:]]))"
LIAR: Final = """
import os, socket, struct
near, far = socket.socketpair()
number, inode = far.fileno(), os.fstat(far.fileno()).st_ino
{lie}
os.write(1, struct.pack(">IQ", number, inode))
os.write(1, b"answered " + os.read(0, 1))
os.read(0, 1)
"""
FILL: Final = """
far.setblocking(False)
try:
    while far.send(bytes(9)):
        pass
except OSError:
    pass
"""
OTHER_KIND: Final = """
far = socket.socket()
number, inode = far.fileno(), os.fstat(far.fileno()).st_ino
"""
LAST_WORDS: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
from box import channel
near = channel.open_channel("+")
near.send([b"first, "])
assert os.read(near.lifeline, 1) == b""
near.send([b"last words"])
"""
LIES: Final = {
    "no descriptor": "number = 999",
    "no number that there can be": "number = 0xffffffff",
    "a file": "number = os.open('/dev/null', 0); inode = os.fstat(number).st_ino",
    "another socket": "number = near.fileno()",
    "a socket that takes nothing": FILL,
    "a socket that goes nowhere": "near.close()",
    "a socket of another kind": OTHER_KIND,
}


@dataclass
class Heard:
    """The bytes that came through a channel, and the number of its ends."""

    data: bytes = b""
    ends: int = 0

    def received(self, data: bytes) -> None:
        self.data += data

    def closed(self) -> None:
        self.ends += 1


@dataclass
class Attached:
    """A daemon with one container, whose init it attaches to."""

    init: asyncio.subprocess.Process
    carried: int = 0
    cut: Callable[[], None] = field(default=lambda: None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.init.stdout is not None
        assert self.init.stdin is not None
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
        self.cut = writer.close
        taking = asyncio.create_task(self._take(reader))
        with suppress(ConnectionError):
            while data := await self.init.stdout.read(1 << 16):
                self.carried += len(data)
                writer.write(struct.pack(">BxxxI", 1, len(data)) + data)
                await writer.drain()
        writer.close()
        await taking

    async def _take(self, reader: asyncio.StreamReader) -> None:
        assert self.init.stdin is not None
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self.init.stdin.write(data)
        self.init.stdin.close()


@asynccontextmanager
async def attached(folder: Path, *command: str) -> AsyncIterator[tuple[Attached, AttachStream]]:
    """Yield a process of that command below its init, and the stream to it; end both afterwards."""
    pipe = asyncio.subprocess.PIPE
    init = await asyncio.create_subprocess_exec(sys.executable, "-c", INIT, *command, stdin=pipe, stdout=pipe)
    daemon = Attached(init)
    server = await asyncio.start_unix_server(daemon.serve, folder / "daemon.sock")
    stream = await attach(Address(f"unix://{folder}/daemon.sock"), "some", on_stderr=lambda _: None)
    try:
        yield daemon, stream
    finally:
        stream.close()
        await asyncio.wait_for(init.wait(), PATIENCE_S)
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def near_runner(folder: Path) -> AsyncIterator[tuple[Attached, RunnerChannel, Heard]]:
    """Yield a runner that uses the direct channel and has said hello through it."""
    async with attached(folder, str(RUNNER), "+") as (daemon, stream):
        way, heard = await open_runner_channel(stream, init=daemon.init.pid), Heard()
        assert way.is_short
        way.listen(heard)
        way.send(pack_message(plain_plan(folder)), ())
        await until(lambda: b'"hello"' in heard.data)
        yield daemon, way, heard
        way.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (nobody sets an event: what is waited for comes through a pipe)
            await asyncio.sleep(0.01)


def test_a_daemon_that_answers_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.backends.container.docker.attach._PATIENCE_S", 0.01)

    async def ask() -> None:
        stays = asyncio.Event()

        async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await stays.wait()
            writer.close()

        async with await asyncio.start_unix_server(say_nothing, tmp_path / "daemon.sock"):
            with pytest.raises(BackendUnavailable, match="took too long for attaching a container"):
                await attach(Address(f"unix://{tmp_path}/daemon.sock"), "some", on_stderr=lambda _: None)
            stays.set()

    asyncio.run(ask())


@pytest.mark.parametrize("ends", ["before", "while it is waited for"])
def test_the_end_of_a_container_is_noticed_while_the_daemon_holds_on(ends: str, tmp_path: Path) -> None:
    """Some daemons do not hang up while they have something left to send to the container."""

    async def speak() -> None:
        before, stays = len(os.listdir("/proc/self/fd")), asyncio.Event()

        async def hang_on(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 101 UPGRADED\r\n\r\n" + struct.pack(">BxxxI", 1, 4) + b"last")
            await stays.wait()
            writer.close()

        async with await asyncio.start_unix_server(hang_on, tmp_path / "daemon.sock"):
            init = await asyncio.create_subprocess_exec("sleep", "600")
            stream = await attach(Address(f"unix://{tmp_path}/daemon.sock"), "some", on_stderr=lambda _: None)
            if ends == "before":
                init.kill()
                await init.wait()
            heard, told = Heard(), list[int]()
            stream.end_with(init.pid, on_end=lambda: told.append(heard.ends))
            stream.listen(heard)
            if init.returncode is None:
                init.kill()
            await until(lambda: heard.ends == 1)
            assert (heard.data, told) == (b"last", [0])
            await init.wait()
            stays.set()
        assert len(os.listdir("/proc/self/fd")) <= before + 1, "but what the loop keeps for its children"

    asyncio.run(speak())


def test_a_runner_on_this_host_is_reached_past_the_daemon(tmp_path: Path) -> None:
    async def speak() -> None:
        async with near_runner(tmp_path) as (daemon, way, heard):
            line = way.open_pipes()
            assert line is not None
            line.close()
            assert (daemon.carried, heard.ends) == (OFFER_BYTES, 0)

    asyncio.run(speak())


@pytest.mark.parametrize("ending", ["the stream is cut", "the engine hangs up", "the runner is killed"])
def test_a_runner_ends_with_either_channel_and_its_end_comes_once(ending: str, tmp_path: Path) -> None:
    async def end() -> None:
        async with near_runner(tmp_path) as (daemon, way, heard):
            (runner,) = psutil.Process(daemon.init.pid).children()
            if ending == "the engine hangs up":
                way.close()
            elif ending == "the stream is cut":
                daemon.cut()
            else:
                runner.kill()
            await asyncio.wait_for(daemon.init.wait(), PATIENCE_S)
            await until(lambda: heard.ends == (ending != "the engine hangs up"))

    asyncio.run(end())


def test_the_last_message_arrives_though_the_stream_ends_first(tmp_path: Path) -> None:
    async def end() -> None:
        async with attached(tmp_path, "-c", LAST_WORDS, str(RUNNER)) as (daemon, stream):
            way, heard = await open_runner_channel(stream, init=daemon.init.pid), Heard()
            way.listen(heard)
            await until(lambda: heard.data == b"first, ")
            daemon.cut()
            await until(lambda: heard.ends == 1)
            assert heard.data == b"first, last words"
            way.close()

    asyncio.run(end())


def test_without_permission_the_stream_stays_the_channel(tmp_path: Path) -> None:
    """Missing permission and missing processes look alike to an observer in another process."""

    async def speak() -> None:
        async with attached(tmp_path, str(RUNNER), "+") as (daemon, stream):
            way, heard = await open_runner_channel(stream, init=os.getpid()), Heard()
            assert (way.is_short, way.open_pipes()) == (False, None)
            way.listen(heard)
            reading, writing = os.pipe()
            way.send(pack_message(plain_plan(tmp_path)), [writing])
            assert os.read(reading, 1) == b"", "the other end is closed everywhere"
            os.close(reading)
            await until(lambda: b'"hello"' in heard.data)
            assert daemon.carried == OFFER_BYTES + len(heard.data)

    asyncio.run(speak())


@pytest.mark.parametrize("lie", LIES)
def test_only_the_announced_socket_is_used(lie: str, tmp_path: Path) -> None:
    async def look() -> None:
        before = len(os.listdir("/proc/self/fd"))
        async with attached(tmp_path, "-c", LIAR.format(lie=LIES[lie])) as (daemon, stream):
            way, heard = await open_runner_channel(stream, init=daemon.init.pid), Heard()
            assert not way.is_short
            way.listen(heard)
            await until(lambda: heard.data == b"answered 0")
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(look())


def test_a_silent_container_that_ends_is_noticed(tmp_path: Path) -> None:
    async def look() -> None:
        async with attached(tmp_path, "-c", "import os; os.write(1, b'few')") as (daemon, stream):
            way, heard = await open_runner_channel(stream, init=daemon.init.pid), Heard()
            way.listen(heard)
            await until(lambda: heard.ends == 1)

    asyncio.run(look())
