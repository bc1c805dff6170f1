"""A box may hand over listening sockets only, each with the process that it ends with."""

from __future__ import annotations

import array
import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final

import pytest

from sandbox.egress.listener_handoff import ListenerHandoff, open_handoff
from sandbox.policy import Network, NetworkMode

LABEL: Final = "0123456789abcdef" * 2
REQUEST: Final = b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n"


@contextmanager
def _process() -> Iterator[tuple[int, int]]:
    """Yield a waiting process and a descriptor of it."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        yield process.pid, descriptor
        os.close(descriptor)
        process.kill()


@asynccontextmanager
async def _handoff() -> AsyncIterator[tuple[ListenerHandoff, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handoff = open_handoff(ours, Network(mode=NetworkMode.PUBLIC))
    with theirs:
        yield handoff, theirs
        await handoff.close()


def _hand_over(to: socket.socket, label: str, *descriptors: int) -> None:
    to.sendmsg([label.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


def _listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


async def _answer(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(REQUEST)
    answer = await reader.read()
    writer.close()
    return answer


def test_a_listening_socket_is_served_until_its_process_ends() -> None:
    async def use() -> None:
        with _process() as (pid, process), _listener() as listener:
            async with _handoff() as (handoff, theirs):
                address = listener.getsockname()
                _hand_over(theirs, LABEL, listener.fileno(), process)
                listener.close()
                assert b"x-sandbox-egress: address" in await _answer(address)
                os.kill(pid, signal.SIGKILL)
                await _until(lambda: not _is_open(address))
                books = handoff.traffic(LABEL)
                assert books is not None
                assert (books.connections >= 1, books.refused) == (True, 1)
                assert handoff.traffic(LABEL) is None

    asyncio.run(use())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (nobody sets an event: the kernel tells of the end of a process)
            await asyncio.sleep(0.01)


def _is_open(address: tuple[str, int]) -> bool:
    with socket.socket() as near:
        return near.connect_ex(address) == 0


def test_a_refused_sender_gets_the_answer_however_small_its_pieces() -> None:
    async def use() -> bytes:
        with _process() as (_, process), _listener() as listener:
            async with _handoff() as (_, theirs):
                address = listener.getsockname()
                _hand_over(theirs, LABEL, listener.fileno(), process)
                listener.close()
                reader, writer = await asyncio.open_connection(*address)
                writer.write(b"POST http://127.0.0.1/ HTTP/1.1\r\nContent-Length: 400000\r\n\r\n")
                for _ in range(100):
                    writer.write(bytes(4000))
                    await writer.drain()
                    await asyncio.sleep(0.001)
                answer = await reader.read()
                writer.close()
                return answer

    assert b"x-sandbox-egress: address" in asyncio.run(use())


def test_everything_ends_with_the_proxy() -> None:
    async def use() -> None:
        with _process() as (_, process), _listener() as listener:
            async with _handoff() as (_, theirs):
                address = listener.getsockname()
                _hand_over(theirs, LABEL, listener.fileno(), process)
                listener.close()
                await _answer(address)
            assert not _is_open(address)

    asyncio.run(use())


def _unix_listener() -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind("")
    made.listen()
    return made


REFUSED: Final[dict[str, Callable[[], socket.socket]]] = {
    "a socket that does not listen": socket.socket,
    "datagrams": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "a unix socket": _unix_listener,
    "version 6": lambda: socket.create_server(("::1", 0), family=socket.AF_INET6),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_another_kind_of_socket_is_neither_served_nor_kept(kind: str) -> None:
    async def use() -> None:
        with _process() as (_, process), REFUSED[kind]() as other:
            async with _handoff() as (handoff, theirs):
                before = len(os.listdir("/proc/self/fd"))
                _hand_over(theirs, LABEL, other.fileno(), process)
                assert handoff.traffic(LABEL) is None
                assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(use())


def test_descriptors_of_other_kinds_are_not_kept() -> None:
    async def use() -> None:
        with ExitStack() as opened:
            _, process = opened.enter_context(_process())
            listener = opened.enter_context(_listener())
            file = os.open(os.devnull, os.O_RDONLY)
            opened.callback(os.close, file)
            async with _handoff() as (handoff, theirs):
                before = len(os.listdir("/proc/self/fd"))
                for descriptors in (
                    (file, process),
                    (listener.fileno(), file),
                    (listener.fileno(), listener.fileno()),
                    (process, listener.fileno()),
                    (listener.fileno(),),
                    (listener.fileno(), process, file),
                ):
                    _hand_over(theirs, LABEL, *descriptors)
                    assert handoff.traffic(LABEL) is None
                for label in ("short", "x" * 33, "x" * 5000):
                    _hand_over(theirs, label, listener.fileno(), process)
                    assert handoff.traffic(label[:32]) is None
                assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(use())


def test_a_label_is_valid_once() -> None:
    async def use() -> None:
        with _process() as (_, process), _listener() as listener:
            async with _handoff() as (handoff, theirs):
                for _ in range(3):
                    _hand_over(theirs, LABEL, listener.fileno(), process)
                await asyncio.sleep(0)
                assert handoff.traffic(LABEL) is not None
                assert handoff.traffic(LABEL) is None

    asyncio.run(use())


def test_endless_handovers_are_bounded() -> None:
    async def use() -> None:
        with _process() as (_, process), _listener() as listener:
            async with _handoff() as (handoff, theirs):
                for number in range(300):
                    _hand_over(theirs, f"{number:032}", listener.fileno(), process)
                    handoff.traffic("none")
                assert len(os.listdir("/proc/self/fd")) < 2 * 128 + 64

    asyncio.run(use())
