"""The five pipes of a call as its own processes see them: their numbers, and the form of what is said on them.

3  request   a length and the limits that this call lowers, as JSON; then a length and the call, as JSON
1  stdout, 2  stderr   the tool's own
4  status    records of the guard, each a length and a JSON object; the tool never holds it
5  value     the reply (see call.py), moved to a high number before the tool runs
"""

from __future__ import annotations

import json
import os
import struct

import walls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

REQUEST, STATUS, VALUE = 3, 4, 5
_FIRST_FREE = 6
_RECORD = struct.Struct(">I")
_ASSIGNMENT = struct.Struct(">Q")


def arrange(pipes: Sequence[int]) -> None:
    """The pipes at their numbers, and nothing else open: no descriptor of the zygote reaches the tool."""
    for end, number in zip(pipes, (REQUEST, 1, 2, VALUE, STATUS)):
        os.dup2(end, number, number in (1, 2))
    walls.close_from(_FIRST_FREE)


def keep_numbers_free() -> None:
    """Take the numbers of a call's pipes that are free, so that none of the zygote's own descriptors gets one. Input is
    the box's own empty one."""
    null = os.open(os.devnull, os.O_RDWR)
    if null:
        os.dup2(null, 0, False)
    for number in range(REQUEST, _FIRST_FREE):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null, number, False)
    if null >= _FIRST_FREE:
        os.close(null)


def assignment(limits: dict[str, int]) -> bytes:
    """What the zygote writes ahead of the request: the limits that one call may lower."""
    text = json.dumps(limits).encode()
    return _ASSIGNMENT.pack(len(text)) + text


def receive() -> tuple[dict[str, int], dict[str, Any]]:
    """The call's own limits and its request; nothing more will come."""
    limits, request = _read_call(REQUEST)
    os.close(REQUEST)
    return limits, request


def rehearse(request: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The same for a small request of our own."""
    reading, writing = os.pipe()
    try:
        text = json.dumps(request).encode()
        os.write(writing, assignment({}) + _ASSIGNMENT.pack(len(text)) + text)
        return _read_call(reading)
    finally:
        os.close(reading)
        os.close(writing)


def tell(record: dict[str, Any]) -> None:
    """One record to the zygote."""
    data = json.dumps(record).encode("ascii")
    os.write(STATUS, _RECORD.pack(len(data)) + data)


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


def _read_call(descriptor: int) -> tuple[dict[str, int], dict[str, Any]]:
    return json.loads(_part(descriptor)), json.loads(_part(descriptor))


def _part(descriptor: int) -> bytes:
    (size,) = _ASSIGNMENT.unpack(_exactly(descriptor, _ASSIGNMENT.size))
    return _exactly(descriptor, size)


def _exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = os.read(descriptor, min(size - len(data), 1 << 20))
        if not more:
            os._exit(0)
        data += more
    return bytes(data)
