"""The channel to a container's runner: the attach stream of the daemon, or a socket past the daemon on this machine.

The daemon and its shim copy every byte of the stream, in both directions, which takes as long as a short call. The
stream carries no descriptors either, so all bytes of a call would pass through the runner, too. A container inherits no
socket from us, and no mount leads to one. But a process that may trace another process of this machine may copy one of
its descriptors (`pidfd_getfd`, Linux 5.6)::

    runner   makes two sockets, and announces the number and the inode of the second one on the stream
    engine   copies that socket, and sends one end of a new channel into it
    runner   receives the end from its first socket, and closes both

All of this happens before any foreign code runs. A container that lies gains nothing: the engine accepts only that very
socket, of a process of this container, and only sends one message to it, without waiting. The two ends of the channel
are separate open files, so no process in the container can make the engine's end block.

If the engine may not copy descriptors (most users except root), it says so, and the stream stays the channel. Otherwise
the stream stays open, and its end tells the runner to end.
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
from sandbox.backends.container.docker.attach import AttachStream
from sandbox.backends.pipes import ChildPipes, open_child_pipes
from sandbox.protocols import Receiver

_OFFER: Final = struct.Struct(">IQ")
_TAKEN, _NOT_TAKEN = b"1", b"0"
_PIDFD_GETFD: Final = 438
"""The same number on every architecture."""
_APART_S: Final = 1.0


class RunnerChannel:
    """The channel to one runner."""

    def __init__(self, stream: AttachStream, shortcut: SocketChannel | None = None) -> None:
        self._stream = stream
        self._shortcut = shortcut
        self._next_line = 0

    @property
    def is_short(self) -> bool:
        """Return whether the channel leads past the daemon, and carries descriptors."""
        return self._shortcut is not None

    @property
    def is_closed(self) -> bool:
        """Return whether either side has closed the channel."""
        return self._stream.is_closed or (self._shortcut is not None and self._shortcut.is_closed)

    def listen(self, receiver: Receiver) -> None:
        """Pass everything on to the receiver, from now on."""
        if self._shortcut is None:
            self._stream.listen(receiver)
            return
        both = _Both(receiver)
        self._stream.listen(both)
        self._shortcut.listen(both)

    def send(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Queue the data, or drop it if the runner is gone; close the descriptors."""
        if self._shortcut is not None:
            self._shortcut.send(data, descriptors)
            return
        for descriptor in descriptors:  # a stream carries none
            os.close(descriptor)
        self._stream.send(data)

    async def all_sent(self) -> None:
        """Wait until the queue is empty, or the runner is gone."""
        await (self._shortcut or self._stream).all_sent()

    def open_pipes(self) -> ChildPipes | None:
        """Return pipes for one call; None if the channel cannot send their ends."""
        self._next_line += 1
        return open_child_pipes(self._next_line) if self.is_short else None

    def close(self) -> None:
        """Close the channel."""
        self._stream.close()
        if self._shortcut is not None:
            self._shortcut.close()


class _Both:
    """Pass on the data of stream and socket, and the end after both have ended, or a moment after the first.

    When a container dies, the runner's last words may arrive on one of them after the end of the other.
    """

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


async def open_runner_channel(stream: AttachStream, *, init: int) -> RunnerChannel:
    """Return the channel past the daemon that the runner offers; the stream itself if that fails.

    `init` is the pid of the container's first process on this machine.
    """
    offer = await stream.first(_OFFER.size)
    ours = None
    if len(offer) == _OFFER.size:
        number, inode = _OFFER.unpack(offer)
        with suppress(OSError):
            ours = _hand_over(init, number, inode)
    stream.send(_NOT_TAKEN if ours is None else _TAKEN)
    return RunnerChannel(stream, None if ours is None else SocketChannel(ours))


def _hand_over(init: int, number: int, inode: int) -> socket.socket:
    """Send one end of a new channel to the runner and return the other; raise `OSError` if that fails."""
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
    """Copy that socket of the only child `of` a container's first process; raise `OSError` if it is another file."""
    held = os.pidfd_open(process)
    try:
        if _only_child(of) != process:  # the number may belong to a new process since
            raise ProcessLookupError(process)
        taken = _copy_of(number, process=held)
    finally:
        os.close(held)
    found = os.fstat(taken)
    if stat.S_ISSOCK(found.st_mode) and found.st_ino == inode:
        return socket.socket(fileno=taken)
    os.close(taken)
    raise OSError("the runner offers another socket than the announced one")


def _only_child(process: int) -> int:
    """Return the only child of the first process of a container that has just started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    if len(children) != 1:
        raise ProcessLookupError(process)
    return int(children[0])


def _copy_of(number: int, *, process: int) -> int:
    """Return a copy of the process's descriptor with that number."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    taken = int(libc.syscall(_PIDFD_GETFD, process, ctypes.c_int(number), 0))
    if taken < 0:
        raise OSError(ctypes.get_errno(), "the runner's descriptor cannot be copied")
    os.set_inheritable(taken, False)
    return taken
