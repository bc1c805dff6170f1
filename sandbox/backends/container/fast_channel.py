"""The way to a container's runner: the stream that every daemon has, or past it, where the container is near.

What goes by the stream is copied by the daemon and by who keeps its containers, in both directions, which takes as long
as a short call does. Nor does it carry descriptors, so that all of a call's bytes lead through the runner, too. A
container inherits nothing from us that could carry them, and nothing is mounted for it to meet us by. But who may trace
a process of this machine may have a copy of one of its descriptors (`pidfd_getfd`, Linux 5.6)::

    runner   makes two sockets, and says on the stream which number the second has, and which inode
    engine   takes that socket, and sends one end of a new channel into it
    runner   gets it from the first; the two are closed

That is before any foreign code is there. A container that lies gains nothing: what is taken must be that very socket,
of a process of this container, and nothing is done with it but to send once, without waiting. The ends of the channel
are open files of their own, so nobody in the container can make ours block.

Where the engine may not do that (who is not root seldom may), it says so, and the stream stays the channel. Where it
may, the stream stays open, and its end the sign for the runner to end.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from sandbox.backends.channel import SocketChannel
from sandbox.backends.docker.attach import AttachStream
from sandbox.backends.pipes import ChildPipes, open_pipe_line
from sandbox.protocols import Receiver

_OFFER: Final = struct.Struct(">IQ")
_TAKEN, _NOT_TAKEN = b"1", b"0"
_PIDFD_GETFD: Final = 438
"""The same number on every architecture."""
_APART_S: Final = 1.0


class Way:
    """How one runner is spoken to, and heard."""

    def __init__(self, stream: AttachStream, shortcut: SocketChannel | None = None) -> None:
        self._stream = stream
        self._shortcut = shortcut
        self._next_line = 0

    @property
    def is_short(self) -> bool:
        """Whether it leads past the daemon, and carries descriptors."""
        return self._shortcut is not None

    @property
    def is_closed(self) -> bool:
        """Whether either side has hung up."""
        return self._stream.is_closed or (self._shortcut is not None and self._shortcut.is_closed)

    def listen(self, receiver: Receiver) -> None:
        """Hand everything on, from now on."""
        if self._shortcut is None:
            self._stream.listen(receiver)
            return
        both = _Both(receiver)
        self._stream.listen(both)
        self._shortcut.listen(both)

    def send(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Queue it; dropped when nobody is there any more. Closes the descriptors."""
        if self._shortcut is not None:
            self._shortcut.send(data, descriptors)
            return
        for descriptor in descriptors:  # a stream carries none
            os.close(descriptor)
        self._stream.send(data)

    async def all_sent(self) -> None:
        """Wait until nothing is queued any more, or nobody is there to take it."""
        await (self._shortcut or self._stream).all_sent()

    def open_pipes(self) -> ChildPipes | None:
        """Pipes for one call, where their ends can be sent."""
        self._next_line += 1
        return open_pipe_line(self._next_line) if self.is_short else None

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        if self._shortcut is not None:
            self._shortcut.close()


class _Both:
    """Hands on what comes by either way, and the end when both have ended: when a container dies, what its runner said
    last by the one may come after the end of the other. That is not waited for long."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._has_one_ended = False

    def received(self, data: bytes) -> None:
        self._receiver.received(data)

    def closed(self) -> None:
        if self._has_one_ended:
            self._receiver.closed()
        else:
            self._has_one_ended = True
            asyncio.get_running_loop().call_later(_APART_S, self._receiver.closed)


async def open_way(stream: AttachStream, *, init: int) -> Way:
    """Take what the runner offers, which was told to when it was started; `init` is its container's first process, as
    this machine numbers them. Where that cannot be, the runner is told so, too."""
    offer = await stream.first(_OFFER.size)
    ours = None
    if len(offer) == _OFFER.size:
        number, inode = _OFFER.unpack(offer)
        with suppress(OSError):
            ours = _hand_over(init, number, inode)
    stream.send(_NOT_TAKEN if ours is None else _TAKEN)
    return Way(stream, None if ours is None else SocketChannel(ours))


def _hand_over(init: int, number: int, inode: int) -> socket.socket:
    """Our end of a new channel, whose other one is sent to the runner; OSError where it cannot be."""
    with closing(_take(_only_child(init), number, inode, of=init)) as offered:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", theirs.fileno()))]
                offered.sendmsg([b"\0"], attached, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except OSError:
                ours.close()
                raise
    return ours


def _take(process: int, number: int, inode: int, *, of: int) -> socket.socket:
    """That socket of the only child `of` a container's first process; OSError when it is anything else."""
    held = os.pidfd_open(process)
    try:
        if _only_child(of) != process:  # which it was asked by number until now
            raise ProcessLookupError(process)
        taken = _copy_of(number, process=held)
    finally:
        os.close(held)
    found = os.fstat(taken)
    if stat.S_ISSOCK(found.st_mode) and found.st_ino == inode:
        return socket.socket(fileno=taken)
    os.close(taken)
    raise OSError("what the runner offers is not the socket that it says")


def _only_child(process: int) -> int:
    """Of a container that has just been started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    if len(children) != 1:
        raise ProcessLookupError(process)
    return int(children[0])


def _copy_of(number: int, *, process: int) -> int:
    """A copy of the descriptor that has that number there."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    taken = int(libc.syscall(_PIDFD_GETFD, process, ctypes.c_int(number), 0))
    if taken < 0:
        raise OSError(ctypes.get_errno(), "the runner's descriptor cannot be taken")
    os.set_inheritable(taken, False)
    return taken
