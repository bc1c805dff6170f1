"""A channel carries every byte, and descriptors where it can, to a reader that may be slow."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from box.channel import ReceivedDescriptors, SocketChannel, open_channel
from tests.runners.plain_runner import RUNNER


@pytest.fixture
def pair() -> Iterator[tuple[SocketChannel, socket.socket]]:
    theirs, ours = socket.socketpair()
    with ours:
        channel = open_channel(str(theirs.detach()))
        assert isinstance(channel, SocketChannel)
        yield channel, ours
        os.close(channel.fileno())
        channel._socket.detach()


def test_arriving_bytes_land_in_the_given_buffer(pair: tuple[SocketChannel, socket.socket]) -> None:
    channel, engine = pair
    engine.sendall(b"firstrest")
    room = bytearray(100)
    assert channel.read(5) == b"first"
    assert (channel.receive(memoryview(room)), bytes(room[:4])) == ((4, []), b"rest")
    engine.shutdown(socket.SHUT_WR)
    assert channel.receive(memoryview(room)) == (0, [])


def test_descriptors_arrive_and_are_not_inherited(pair: tuple[SocketChannel, socket.socket]) -> None:
    channel, engine = pair
    near, far = os.pipe()
    socket.send_fds(engine, [b"x"], [far, far])
    os.close(far)
    count, (arrived,) = channel.receive(memoryview(bytearray(10)))
    assert (count, len(arrived), [os.get_inheritable(number) for number in arrived]) == (1, 2, [False, False])
    for number in arrived:
        os.write(number, b".")
        os.close(number)
    assert os.read(near, 9) == b".."
    os.close(near)


def test_lost_descriptors_do_not_mix_with_those_of_other_messages(
    pair: tuple[SocketChannel, socket.socket],
) -> None:
    channel, engine = pair
    handed, room, before = ReceivedDescriptors(), memoryview(bytearray(1)), _open_files()
    for first, most in ((os.devnull, None), (__file__, 0), (os.devnull, None)):
        with open(first) as file:
            socket.send_fds(engine, [b"x"], [file.fileno()] * 3)
        with _no_more_than(most):
            handed.add(channel.receive(room)[1])
    taken = [handed.take([2, 1]) for _ in range(3)]
    assert [[len(part) for part in parts] for parts in taken] == [[2, 1], [0, 0], [2, 1]]
    for number in (number for parts in taken for part in parts for number in part):
        assert os.readlink(f"/proc/self/fd/{number}") == os.devnull
        os.close(number)
    assert _open_files() == before


@contextmanager
def _no_more_than(most: int | None) -> Iterator[None]:
    """Limit the descriptors of this process below its present number; None restores the limit."""
    was = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (was[0] if most is None else most, was[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, was)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_everything_is_sent_to_a_slow_reader(pair: tuple[SocketChannel, socket.socket]) -> None:
    channel, engine = pair
    parts: list[bytes | memoryview] = [b"", b"a" * 3_000_000, memoryview(b"b" * 1000), *([b"c"] * 5000), b""]
    sender = threading.Thread(target=channel.send, args=(parts,))
    sender.start()
    received = bytearray()
    while len(received) < 3_006_000:
        received += engine.recv(100_000)
    sender.join()
    assert received == b"".join(parts)


_PIPES: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
from box import channel
pipes = channel.open_channel("-")
print("printed")
os.write(1, b"written")
os.system("echo shouted")
assert sys.stdin.read() == ""
room = memoryview(bytearray(100))
count, _ = pipes.receive(room)
pipes.send([b"<", room[:count], b">"])
"""


@pytest.mark.slow
def test_nothing_printed_reaches_a_channel_of_pipes() -> None:
    command = [sys.executable, "-I", "-S", "-c", _PIPES, str(RUNNER)]
    answer = subprocess.run(command, input=b"asked", stdout=subprocess.PIPE, check=True)
    assert answer.stdout == b"<asked>"
