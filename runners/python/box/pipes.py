"""The six pipes of a call as its own processes see them: their numbers, and the form of what is said on them.

3  request   a length and the limits that this call lowers, as JSON; then a length and the call, as JSON; then the
             bytes of the files that it is given, one after the other (see call/input_files.py)
1  stdout, 2  stderr   the tool's own
4  status    records of the guard and of the tool's process, each a length and a JSON object; the tool never holds it
5  value     the reply (see call/call.py), moved to a high number before the tool runs
6  files     what the tool left (see call/output_files.py), sent by the guard; the tool never holds it
"""

from __future__ import annotations

import fcntl
import os
import struct

from box import fast_json, isolation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kernel.script import Script

REQUEST, STATUS, VALUE, FILES = 3, 4, 5, 6
FIRST_FREE = 7
TEMPLATE = 7
"""The number at which a guard finds the way to the template, where there is one; the doors of its slot follow."""
_FIRST_OF_DOORS = 32
_NUMBERS = (REQUEST, 1, 2, VALUE, STATUS, FILES)
_RECORD = struct.Struct(">I")
_ASSIGNMENT = struct.Struct(">Q")
_NO_LIMITS = b"{}"
_AT_ONCE = 1 << 12


def reserve() -> list[int]:
    """The numbers at which the zygote hands a child its ends of request, stdout, stderr, value, status and files: the
    same for every child."""
    reserved: list[int] = []
    try:
        reserved.extend(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for _ in _NUMBERS)
    except OSError:
        for number in reserved:
            os.close(number)
        raise
    return reserved


def reserve_doors(count: int) -> list[int]:
    """Return numbers at which the zygote hands a guard copies of its slot's doors; they stay clear of the pipes'."""
    return [fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FIRST_OF_DOORS) for _ in range(count)]


def hand(end: int, number: int) -> None:
    """Hold out this end of a pipe at one of these numbers."""
    os.dup2(end, number, False)
    os.close(end)


def take_back(handed: Sequence[int]) -> None:
    """The child has its own by now."""
    for number in handed:
        os.dup2(0, number, False)


def arrange(handed: Sequence[int]) -> None:
    """The pipes at their numbers, and nothing else open: no descriptor of the zygote reaches the tool."""
    for end, number in zip(handed, _NUMBERS):
        os.dup2(end, number, number in (1, 2))
    isolation.close_from(FIRST_FREE)


def write_down_arrangement(script: Script, plan: dict[str, Any]) -> None:
    """Have a script do the same, and keep what an order to the template takes; OSError where the kernel cannot close
    all at once."""
    for end, number in zip(plan["handed"], _NUMBERS):
        script.make("dup3", end, number, 0 if number in (1, 2) else os.O_CLOEXEC, gives=number)
    if plan.get("template") is not None:
        kept = (plan["template"], *plan["handed_doors"])
        for number, end in enumerate(kept, start=TEMPLATE):
            script.make("dup3", end, number, os.O_CLOEXEC, gives=number)
    isolation.close_at_once(isolation.NO_DESCRIPTOR)
    script.make("close_range", first_free(plan), isolation.NO_DESCRIPTOR, 0)


def first_free(plan: dict[str, Any]) -> int:
    """Return the first number that is free in a guard."""
    return FIRST_FREE if plan.get("template") is None else TEMPLATE + 1 + len(plan["handed_doors"])


def kept_doors(plan: dict[str, Any]) -> list[int]:
    """Return the numbers at which a guard has the doors of its slot, for the template."""
    return list(range(TEMPLATE + 1, first_free(plan)))


def keep_numbers_free() -> None:
    """Take the numbers of a call's pipes that are free, so that none of the zygote's own descriptors gets one. Input is
    the box's own empty one."""
    null = os.open(os.devnull, os.O_RDWR)
    if null:
        os.dup2(null, 0, False)
    for number in range(REQUEST, FIRST_FREE):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null, number, False)
    if null >= FIRST_FREE:
        os.close(null)


def assignment(limits: dict[str, int]) -> bytes:
    """What the zygote writes ahead of the request: the limits that one call may lower."""
    text = fast_json.write(limits).encode()
    return _ASSIGNMENT.pack(len(text)) + text


def receive(descriptor: int = REQUEST) -> tuple[dict[str, int], dict[str, Any]]:
    """The call's own limits and its request; nothing more will come but the files that the request tells of. What was
    read of them with it is put into it, as `files_begun`."""
    limits, request, rest = _read_call(descriptor)
    if "files" in request:
        request["files_begun"] = rest
    else:
        os.close(descriptor)
    return limits, request


def some(size: int, *, most: int) -> bytes:
    """Some of that many bytes which follow the request, and were not read with it."""
    data = os.read(REQUEST, min(size, most))
    if not data:
        os._exit(0)
    return data


def rehearse(request: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The same for a small request of our own."""
    reading, writing = os.pipe()
    try:
        text = fast_json.write(request).encode()
        os.write(writing, assignment({}) + _ASSIGNMENT.pack(len(text)) + text)
        return receive(reading)
    finally:
        os.close(writing)


def tell(*records: bytes) -> None:
    """One record to the zygote, or some at once."""
    os.write(STATUS, b"".join([_RECORD.pack(len(record)) + record for record in records]))


def as_record(content: dict[str, Any]) -> bytes:
    """What is told, as the zygote reads it."""
    return fast_json.write(content).encode("ascii")


def split_records(data: bytearray) -> list[bytes]:
    """Take the whole records from the front of `data`."""
    records = []
    while len(data) >= _RECORD.size:
        (length,) = _RECORD.unpack_from(data)
        end = _RECORD.size + length
        if len(data) < end:
            break
        records.append(bytes(data[_RECORD.size : end]))
        del data[:end]
    return records


def _read_call(descriptor: int) -> tuple[dict[str, int], dict[str, Any], bytes]:
    """Nearly always all of it is there at once, and the call lowers no limits. What was read past it comes last."""
    limits, rest = _part(descriptor, os.read(descriptor, _AT_ONCE))
    request, rest = _part(descriptor, rest)
    return {} if limits == _NO_LIMITS else fast_json.read(limits.decode()), fast_json.read(request.decode()), rest


def _part(descriptor: int, data: bytes) -> tuple[bytes, bytes]:
    """The part that begins with `data`, and what was read of the next."""
    data = _at_least(descriptor, _ASSIGNMENT.size, data)
    end = _ASSIGNMENT.size + _ASSIGNMENT.unpack_from(data)[0]
    data = _at_least(descriptor, end, data)
    return data[_ASSIGNMENT.size : end], data[end:]


def _at_least(descriptor: int, size: int, data: bytes) -> bytes:
    """So many bytes, or more, beginning with `data`."""
    if len(data) >= size:
        return data
    read = bytearray(data)
    while len(read) < size:
        more = os.read(descriptor, _AT_ONCE)
        if not more:
            os._exit(0)
        read += more
    return bytes(read)
