"""Replies: the answers of tool processes, parsed once and at a bounded cost.

All calls of an engine share one event loop and one interpreter, and the parser blocks both while it works. A few bytes
of JSON make an object of many: 8 MiB can hold 2.8 million empty lists, which take seconds and half a GiB. So a reply's
parts are counted before it is parsed, and too many are refused. A part begins with a bracket or follows a comma,
outside of strings. Counting the bytes is cheap but includes those in strings. Only if that finds too many, the strings
are removed and the rest is counted again.

A large reply is parsed in a thread, so that the loop runs between the steps; one reply at a time, because the loop
waits for the longest step of each. A small reply is parsed in place: a thread costs more.
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

MAX_PARTS: Final = 250_000
LARGE_BYTES: Final = 256 << 10
_HEAD_BYTES: Final = 4
# Bounded, because other threads only run between two matches.
_SOME_STRINGS: Final = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"){1,2000}', re.DOTALL)
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_single = Lock()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TooManyParts:
    """A reply that was not parsed, because it has too many parts."""

    parts: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that could not be parsed."""

    reason: str


Answer = Reply | TooManyParts | Unreadable


def is_sent(value: bytes | bytearray) -> bool:
    """Return whether there is any reply."""
    return len(value) > _HEAD_BYTES


def read_answer(value: bytes) -> Answer:
    """Return the reply of a tool's process."""
    size = int.from_bytes(value[:_HEAD_BYTES], "big")
    text = value[_HEAD_BYTES : _HEAD_BYTES + size]
    parts = count_parts(text) if len(text) > MAX_PARTS else 0
    if parts > MAX_PARTS:
        return TooManyParts(parts)
    try:
        return parse_reply(text)
    except ProtocolError as error:
        return Unreadable(str(error))


def count_parts(text: bytes) -> int:
    """Return how many parts a JSON text has. Parts in strings are included while the sum is small."""
    parts = _count(text)
    return parts if parts <= MAX_PARTS else _count_outside_of_strings(text)


def _count_outside_of_strings(text: bytes) -> int:
    parts = at = 0
    while some := _SOME_STRINGS.match(text, at):
        parts += _count(_STRING.sub(b"", some[0]))
        at = some.end()
    return parts + _count(text[at:])


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


async def aside_when_large(work: Callable[[], Result], *, size: int, threads: Threads) -> Result:
    """Return the result of `work` on `size` bytes, done in a thread if they are many."""
    return work() if size <= LARGE_BYTES else await aside(work, threads)


async def aside(work: Callable[[], Result], threads: Threads) -> Result:
    """Return the result of `work`, done in a thread."""
    return await threads.do_in_turn(partial(_alone, work))


def _alone(work: Callable[[], Result]) -> Result:
    with _single:
        return work()
