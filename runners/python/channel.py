"""The way to the engine: a connected socket, which can also hand over descriptors, or a pair of pipes."""

from __future__ import annotations

import _socket as socket  # half a millisecond in place of three: the public module is for programs that do more
import array
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Channel = Union["PipeChannel", "SocketChannel"]

_READ_SIZE = 1 << 16
_MAX_DESCRIPTORS = 250


def open_channel(argument: str) -> Channel:
    """The channel a runner is started with: the number of a socket, or ``-``."""
    return PipeChannel() if argument == "-" else SocketChannel(int(argument))


class SocketChannel:
    """A unix stream socket, inherited from the engine."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
        os.set_inheritable(descriptor, False)
        self._socket.setblocking(True)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def read(self, size: int) -> bytes:
        """At most `size` bytes and nothing else."""
        return self._socket.recv(size)

    def receive(self) -> tuple[bytes, list[int]]:
        """The bytes that are there, and the descriptors that came with them."""
        data, attached, _, _ = self._socket.recvmsg(_READ_SIZE, socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS))
        descriptors: list[int] = []
        for level, kind, content in attached:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                descriptors += numbers
        for number in descriptors:
            os.set_inheritable(number, False)
        return data, descriptors

    def send(self, data: bytes) -> None:
        """All of `data`; waits for a slow reader."""
        self._socket.sendall(data)


class PipeChannel:
    """Standard input and output, moved away from 0 and 1 so that nothing printed can reach the frames."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._in

    def read(self, size: int) -> bytes:
        """At most `size` bytes."""
        return os.read(self._in, size)

    def receive(self) -> tuple[bytes, list[int]]:
        """The bytes that are there; a pipe carries no descriptors."""
        return os.read(self._in, _READ_SIZE), []

    def send(self, data: bytes) -> None:
        """All of `data`; waits for a slow reader."""
        while data:
            data = data[os.write(self._out, data) :]
