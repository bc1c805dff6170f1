"""The six pipes of a call as its own processes see them: their numbers, and the format of their contents.

3  request   a length and the limits that this call lowers, as JSON; then a length and the call, as JSON; then the
             bytes of its input files, one after the other (see call/files.py)
1  stdout, 2  stderr   the tool's own
4  status    records of the guard, each a length and a JSON object; the tool never holds this pipe
5  value     the reply (see call/call.py), moved to a high number before the tool runs
6  files     the files that the tool left (see call/files.py), sent by the guard; the tool never holds this pipe

The last record of a guard says how the tool ended, and its usage. Where the guard was killed together with the call,
the zygote makes the same fields from the kernel's data about the guard.
"""

from __future__ import annotations

import fcntl
import os
import resource
import struct

from box import fast_json, isolation, workdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kernel.calls import CallScript

REQUEST, STATUS, VALUE, FILES = 3, 4, 5, 6
FIRST_FREE = 7
TEMPLATE = 7
"""The number at which a guard finds the template's socket, if there is a template; the doors of its slot follow."""
_FIRST_OF_DOORS = 32
_NUMBERS = (REQUEST, 1, 2, VALUE, STATUS, FILES)
_RECORD = struct.Struct(">I")
_PART = struct.Struct(">Q")
_NO_LIMITS = b"{}"
_AT_ONCE = 1 << 12
_FIELDS = ("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free")
_END = b'{"exit_code": %s, "signal": %s, "cpu_s": %.6f, "max_rss": %d, "bytes_free": %s, "inodes_free": %s}'
"""The last record. An encoder would write to forty more pages, each of which the guard would have to copy."""


def reserve() -> list[int]:
    """Reserve the numbers at which every child inherits its ends: request, stdout, stderr, value, status, files."""
    reserved: list[int] = []
    try:
        reserved.extend(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for _ in _NUMBERS)
    except OSError:
        for number in reserved:
            os.close(number)
        raise
    return reserved


def reserve_doors(count: int) -> list[int]:
    """Reserve numbers, beyond those of the pipes, at which the zygote hands a guard copies of its slot's doors."""
    return [fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FIRST_OF_DOORS) for _ in range(count)]


def hand(end: int, number: int) -> None:
    """Move an end of a pipe to a reserved number, for the next child to inherit."""
    os.dup2(end, number, False)
    os.close(end)


def take_back(handed: Sequence[int]) -> None:
    """Close the zygote's copies after the fork, and keep the numbers reserved."""
    for number in handed:
        os.dup2(0, number, False)


def arrange(handed: Sequence[int]) -> None:
    """Move the pipes to their numbers and close every other descriptor: none of the zygote's reaches the tool."""
    for end, number in zip(handed, _NUMBERS):
        os.dup2(end, number, number in (1, 2))
    isolation.close_from(FIRST_FREE)


def record_arrangement(script: CallScript, plan: dict[str, Any]) -> None:
    """Record the same, but keep the descriptors that an order to the template needs.

    Raise OSError if the kernel cannot close all descriptors at once.
    """
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
    """Occupy the free numbers of a call's pipes, so that no descriptor of the zygote gets one; empty standard input."""
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


def pack_json(content: dict[str, Any]) -> bytes:
    """Return one part of a request, the limits or the call, behind its length."""
    text = fast_json.write(content).encode()
    return _PART.pack(len(text)) + text


def receive(descriptor: int = REQUEST) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the limits that the call lowers and its request; only the files that the request announces follow.

    Bytes of files that were read together with the request are put into it as `files_begun`.
    """
    limits, request, rest = _read_call(descriptor)
    if "files" in request:
        request["files_begun"] = rest
    else:
        os.close(descriptor)
    return limits, request


def read_file_bytes(limit: int) -> bytes:
    """Return more of the files' bytes, at most `limit`; end the process if the engine is gone."""
    data = os.read(REQUEST, limit)
    if not data:
        os._exit(0)
    return data


def rehearse(request: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Receive a small request of our own."""
    reading, writing = os.pipe()
    try:
        os.write(writing, pack_json({}) + pack_json(request))
        return receive(reading)
    finally:
        os.close(writing)


def send_records(*records: bytes) -> None:
    """Send records to the zygote in one write."""
    os.write(STATUS, b"".join([_RECORD.pack(len(record)) + record for record in records]))


def encode_record(content: dict[str, Any]) -> bytes:
    """Return a record for the zygote."""
    return fast_json.write(content).encode("ascii")


def split_records(data: bytearray) -> list[bytes]:
    """Remove the complete records from the front of `data`, and return them."""
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
    """Return the limits, the request, and the bytes that were read past the request.

    Nearly always everything arrives at once, and the call lowers no limits.
    """
    limits, rest = _read_part(descriptor, os.read(descriptor, _AT_ONCE))
    request, rest = _read_part(descriptor, rest)
    return {} if limits == _NO_LIMITS else fast_json.read(limits.decode()), fast_json.read(request.decode()), rest


def _read_part(descriptor: int, data: bytes) -> tuple[bytes, bytes]:
    """Return the part that begins with `data`, and the bytes that were read of the next part."""
    data = _read_at_least(descriptor, _PART.size, data)
    end = _PART.size + _PART.unpack_from(data)[0]
    data = _read_at_least(descriptor, end, data)
    return data[_PART.size : end], data[end:]


def _read_at_least(descriptor: int, size: int, data: bytes) -> bytes:
    """Return at least that many bytes, beginning with `data`."""
    if len(data) >= size:
        return data
    read = bytearray(data)
    while len(read) < size:
        more = os.read(descriptor, _AT_ONCE)
        if not more:
            os._exit(0)
        read += more
    return bytes(read)


# The guard's records, apart from those about isolation


def read_end(record: bytes) -> dict[str, Any]:
    """Return the fields of the last record, which are those of the `ended` message."""
    fields: dict[str, Any] = fast_json.read(record.decode("ascii"))
    return fields


def read_spent(record: bytes) -> tuple[float, list[Any] | None]:
    """Return the processor time of a child before its call, and the raw text of its isolation to remember."""
    found = fast_json.read(record.decode("ascii"))
    return float(found["cpu_s"]), found.get("said")


def read_fault(record: bytes) -> tuple[str, str] | None:
    """Return the layer and the reason, if the first record says that a layer of isolation is missing."""
    fault = fast_json.read(record.decode("ascii")).get("fault")
    return (fault["layer"], fault["reason"]) if fault else None


def end_without_record(usage: tuple[int, resource.struct_rusage] | None) -> dict[str, Any]:
    """Return the same fields for a guard that was killed together with the call.

    `usage` is the kernel's answer when the guard was reaped, or None for a child without an answer.
    """
    if usage is None:
        return dict.fromkeys(_FIELDS)
    status, total = usage
    cpu = total.ru_utime + total.ru_stime
    return dict(zip(_FIELDS, (*_exit_of(status), round(cpu, 6), total.ru_maxrss * 1024, None, None)))


def describe_end(plan: dict[str, Any], status: int, *, max_rss: int) -> bytes:
    """Return the last record."""
    everything = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = everything.ru_utime + everything.ru_stime
    code, number = _exit_of(status)
    size, inodes = workdir.room_left(plan) if plan["workplace"] else (None, None)
    return _END % (_encode(code), _encode(number), cpu, max_rss * 1024, _encode(size), _encode(inodes))


def _exit_of(status: int) -> tuple[int | None, int | None]:
    """Return the exit code, or the signal."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def _encode(number: int | None) -> bytes:
    return b"null" if number is None else b"%d" % number
