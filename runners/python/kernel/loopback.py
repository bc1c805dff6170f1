"""The loopback interface: a new network namespace has one, switched off."""

from __future__ import annotations

import os
import struct

from kernel import calls

_INET, _DATAGRAMS = 2, 2
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x1 | 0x40
_SWITCH_ON = struct.pack("=16sH22x", b"lo", _IFF_UP_RUNNING)


def raise_loopback(kernel: calls.Kernel = calls.NOW) -> None:
    """Switch on `lo`, so that 127.0.0.1 answers to this box alone."""
    probe = kernel.open("socket", _INET, _DATAGRAMS | os.O_CLOEXEC, 0)
    kernel.make("ioctl", probe, _SIOCSIFFLAGS, _SWITCH_ON)
    kernel.close(probe)
