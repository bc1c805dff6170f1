"""The channel to the engine: a connected socket, which can also carry descriptors, or a pair of pipes.

A runner that is started with pipes may have to offer a socket on them. An engine that can take the socket sends its own
channel through it. The pipes then only serve as a lifeline: when they close, all processes here die.
"""

from __future__ import annotations

import _socket as socket  # loads in half a millisecond; the public module takes three
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Union

    Channel = Union["PipeChannel", "SocketChannel"]

_MAX_PARTS = 1000
_MAX_DESCRIPTORS = 250
_NUMBER_SIZE = struct.calcsize("i")
_OFFER = struct.Struct(">IQ")
_TAKEN = b"1"


def open_channel(argument: str) -> Channel:
    """Open the channel that the runner's argument names: the number of a socket; ``-``, or ``+`` to offer one."""
    if argument == "+":
        return _offer_socket(PipeChannel())
    return PipeChannel() if argument == "-" else SocketChannel(int(argument))


def _offer_socket(pipes: PipeChannel) -> Channel:
    """Return the channel that the engine sends through a socket of this process, or the pipes if it sends none."""
    near, far = socket.socketpair()
    try:
        pipes.send([_OFFER.pack(far.fileno(), os.fstat(far.fileno()).st_ino)])
        if pipes.read(1) != _TAKEN:
            return pipes
        _, ((received,),) = _receive(near, memoryview(bytearray(1)))
        return SocketChannel(received, lifeline=pipes.fileno())
    finally:
        near.close()
        far.close()


class SocketChannel:
    """A unix stream socket, inherited from the engine."""

    def __init__(self, descriptor: int, *, lifeline: int | None = None) -> None:
        self.lifeline = lifeline
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
        os.set_inheritable(descriptor, False)
        self._socket.setblocking(True)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes."""
        return self._socket.recv(size)

    def receive(self, room: memoryview) -> tuple[int, list[list[int]]]:
        """Read into `room`; return how many bytes came, and the descriptors that came with them.

        Fewer descriptors arrive than were sent if this process may not open that many.
        """
        return _receive(self._socket, room)

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send all parts; block while the reader is slow."""
        _send_all(self._socket.sendmsg, parts)


class PipeChannel:
    """Standard input and output, moved away from 0 and 1 so that no printed text can reach the frames."""

    lifeline = None

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._in

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes."""
        return os.read(self._in, size)

    def receive(self, room: memoryview) -> tuple[int, list[list[int]]]:
        """Read into `room`; a pipe carries no descriptors."""
        return os.readv(self._in, [room]), []

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send all parts; block while the reader is slow."""
        _send_all(lambda rest: os.writev(self._out, rest), parts)


class ReceivedDescriptors:
    """Descriptors that came with messages, separately for each message.

    The descriptors of a message come with its first byte, possibly long before its last byte, so they wait here.
    """

    def __init__(self) -> None:
        self._sets: list[list[int]] = []

    def add(self, sets: Sequence[list[int]]) -> None:
        """Keep descriptors that came."""
        self._sets += sets

    def take(self, counts: Sequence[int]) -> list[list[int]]:
        """Return the descriptors of the next message, split by these counts; an incomplete part is closed and empty."""
        arrived = self._sets.pop(0) if any(counts) else []
        taken = []
        for count in counts:
            part, arrived = arrived[:count], arrived[count:]
            if len(part) < count:
                for number in part:
                    os.close(number)
                part = []
            taken.append(part)
        return taken


def _receive(end: socket.socket, room: memoryview) -> tuple[int, list[list[int]]]:
    """Read bytes into `room`; return their number, and the descriptors that came with them."""
    count, attached, flags, _ = end.recvmsg_into([room], socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS))
    descriptors: list[int] = []
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack_from("%di" % (len(content) // _NUMBER_SIZE), content)
    for number in descriptors:
        os.set_inheritable(number, False)
    return count, [descriptors] if descriptors or flags & socket.MSG_CTRUNC else []


def _send_all(write: Callable[[Sequence[bytes | memoryview]], int], parts: Sequence[bytes | memoryview]) -> None:
    """Write a bounded number of parts at a time, each time from the end of the last write."""
    rest = [memoryview(part) for part in parts]
    while rest:
        written = write(rest[:_MAX_PARTS])
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]
