"""The records that a guard sends to the zygote: how they are written and read, apart from those about walls.

The last record says how the tool ended and what it used. Where the guard was killed together with the call, the zygote
makes the same fields of what the kernel says when it reaps the guard.
"""

from __future__ import annotations

import os
import resource

from box import fast_json, workdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIELDS = ("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free")
_END = b'{"exit_code": %s, "signal": %s, "cpu_s": %.6f, "max_rss": %d, "bytes_free": %s, "inodes_free": %s}'
"""The last record. An encoder would dirty forty pages more, of which each guard must have a copy."""


def read_end(record: bytes) -> dict[str, Any]:
    """Return the fields of the last record, which are those of the `ended` message."""
    fields: dict[str, Any] = fast_json.read(record.decode("ascii"))
    return fields


def read_spent(record: bytes) -> tuple[float, list[Any] | None]:
    """Return the processor time a child had used before it got its call, and what to remember of its walls."""
    found = fast_json.read(record.decode("ascii"))
    return float(found["cpu_s"]), found.get("said")


def read_fault(record: bytes) -> tuple[str, str] | None:
    """Return the layer and the reason, if the first record says that a wall is missing."""
    fault = fast_json.read(record.decode("ascii")).get("fault")
    return (fault["layer"], fault["reason"]) if fault else None


def end_without_record(usage: tuple[int, resource.struct_rusage] | None) -> dict[str, Any]:
    """Return the same fields where the guard was killed together with the call; `usage` is what the kernel said when
    it was reaped."""
    if usage is None:
        return dict.fromkeys(_FIELDS)
    status, spent = usage
    cpu = spent.ru_utime + spent.ru_stime
    return dict(zip(_FIELDS, (*_ending(status), round(cpu, 6), spent.ru_maxrss * 1024, None, None)))


def describe_end(plan: dict[str, Any], status: int, *, max_rss: int) -> bytes:
    """Return the last record."""
    everything = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = everything.ru_utime + everything.ru_stime
    code, number = _ending(status)
    size, inodes = workdir.room_left(plan) if plan["workplace"] else (None, None)
    return _END % (_written(code), _written(number), cpu, max_rss * 1024, _written(size), _written(inodes))


def _ending(status: int) -> tuple[int | None, int | None]:
    """Return the exit code, or the signal."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def _written(number: int | None) -> bytes:
    return b"null" if number is None else b"%d" % number
