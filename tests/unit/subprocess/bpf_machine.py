"""A second opinion on classic BPF: run a filter's bytes over one system call, as the kernel would.

Written from the kernel's documentation and sharing nothing with the compiler, so that a mistake must be made twice to
go unnoticed. Everything that seccomp does not accept (other instructions, loads off the fields, running off the end)
fails.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}

ERRORS: Final = {1: "EPERM", 13: "EACCES", 22: "EINVAL", 38: "ENOSYS", 93: "EPROTONOSUPPORT", 97: "EAFNOSUPPORT"}


@dataclass(slots=True)
class Run:
    """The answer of a filter, the number of its instructions, and the bytes of the call that it read."""

    verdict: str
    steps: int
    looked_at: set[int]


def run(program: bytes, number: int, arguments: Sequence[int] = (), *, architecture: str) -> Run:
    """Run the filter; missing arguments are zero."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    call = struct.pack("<IIQ6Q", number, ARCHITECTURES[architecture], 0x7F00_0000_1000, *words)
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator, position = 0, 0
    looked_at: set[int] = set()
    for count in range(1, len(steps) + 1):
        code, if_true, if_false, value = steps[position]
        position += 1
        if code == 0x06:
            return Run(_verdict(value), count, looked_at)
        if code == 0x20:
            assert value % 4 == 0
            looked_at.add(value)
            (accumulator,) = struct.unpack_from("<I", call, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            position += value
        elif code == 0x15:
            position += if_true if accumulator == value else if_false
        elif code == 0x35:
            position += if_true if accumulator >= value else if_false
        else:
            raise AssertionError(f"instruction {code:#x} at {position - 1}")
    raise AssertionError("the filter did not end")


def _verdict(action: int) -> str:
    if action == 0x7FFF0000:
        return "allow"
    if action == 0x80000000:
        return "kill"
    assert action >> 16 == 0x0005, f"action {action:#x}"
    return ERRORS[action & 0xFFFF]
