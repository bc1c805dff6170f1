"""The loopback interface: a new network namespace has one, switched off."""

from __future__ import annotations

import _socket as socket  # half a millisecond in place of three: the public module is for programs that do more
import fcntl
import struct

_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x1 | 0x40
_SWITCH_ON = struct.pack("=16sH22x", b"lo", _IFF_UP_RUNNING)


def raise_loopback() -> None:
    """Switch on `lo`, so that 127.0.0.1 answers to this box alone."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(probe.fileno(), _SIOCSIFFLAGS, _SWITCH_ON)
    finally:
        probe.close()
