"""Replies: what a tool's process sent as its answer, read once and at a bounded price.

All calls of an engine share one event loop and one interpreter, and the parser lets nobody else run while it works. A
few bytes of JSON make an object of many: 8 MiB can hold 2.8 million empty lists, which take seconds and half a GiB. So
a reply's parts are counted before it is parsed, and too many are refused. A part is whatever begins with a bracket or
follows a comma, outside of strings. Counting the bytes is cheap but sees those in strings too; only when that finds too
many, the strings are taken out and the rest is counted again.

What is large all the same is read in a thread, so that the loop gets its turn between the steps; one at a time, because
it waits for the longest step of each. What is small is read where it is: a thread costs more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final, TypeVar

from sandbox.errors import ProtocolError
from sandbox.protocol.messages import Reply, parse_reply
from sandbox.threads import Threads

MOST_PARTS: Final = 250_000
LARGE_BYTES: Final = 256 << 10
_HEAD_BYTES: Final = 4
_SOME_STRINGS: Final = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"){1,2000}', re.DOTALL)
"""So many at a time, because others only get their turn between two."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_one_at_a_time = Lock()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TooManyParts:
    """A reply that is not parsed, because the objects it would make are too many."""

    parts: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that is none."""

    reason: str


Answer = Reply | TooManyParts | Unreadable


def is_sent(value: bytes | bytearray) -> bool:
    """Whether there is any reply."""
    return len(value) > _HEAD_BYTES


def read_answer(value: bytes) -> Answer:
    """What a tool's process replied."""
    size = int.from_bytes(value[:_HEAD_BYTES], "big")
    text = value[_HEAD_BYTES : _HEAD_BYTES + size]
    parts = count_parts(text) if len(text) > MOST_PARTS else 0
    if parts > MOST_PARTS:
        return TooManyParts(parts)
    try:
        return parse_reply(text)
    except ProtocolError as error:
        return Unreadable(str(error))


def count_parts(text: bytes) -> int:
    """How many parts a JSON text has; those in strings are counted too while they are not too many."""
    parts = _count(text)
    return parts if parts <= MOST_PARTS else _count_outside_of_strings(text)


def _count_outside_of_strings(text: bytes) -> int:
    parts = at = 0
    while some := _SOME_STRINGS.match(text, at):
        parts += _count(_STRING.sub(b"", some[0]))
        at = some.end()
    return parts + _count(text[at:])


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


async def aside_when_large(work: Callable[[], Result], *, size: int, threads: Threads) -> Result:
    """The result of `work` on that many bytes: done in a thread when they are many."""
    return work() if size <= LARGE_BYTES else await aside(work, threads)


async def aside(work: Callable[[], Result], threads: Threads) -> Result:
    """The result of `work`, done in a thread."""
    return await threads.do_in_turn(partial(_alone, work))


def _alone(work: Callable[[], Result]) -> Result:
    with _one_at_a_time:
        return work()
