"""What a function returned, with what it left to be awaited or drawn out.

A coroutine is awaited on an event loop of its own. What a generator gives is gathered in a list, which is the value of
the call; where somebody follows the call, each item is also sent as it comes, ahead of the reply and on the same pipe,
marked as an item in its head. Only so many are: the list at the end has all of them.
"""

from __future__ import annotations

import os

from call import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ITEM = 1 << 31
"""Set in the head of what is not the reply."""
MOST_ITEMS = 10000
_HEAD = 4


class Items:
    """Sends items to whoever follows, as many as are taken: so many, and `limit` bytes in all."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._room = limit
        self._left = MOST_ITEMS

    def send(self, item: Any) -> None:
        if self._left <= 0 or os.getpid() != self._owner:
            return
        text, _ = values.serialise(item, self._room)
        self._room -= len(text) + _HEAD
        if self._room < 0:
            self._left = 0
            return
        self._left -= 1
        write(self._descriptor, (ITEM | len(text)).to_bytes(_HEAD, "big") + text.encode("ascii"))


def write(descriptor: int, data: bytes) -> None:
    """All of it; the pipe may take it in pieces."""
    while data:
        data = data[os.write(descriptor, data) :]


def finish(result: Any, items: Items | None = None) -> Any:
    """The value that the result comes to."""
    kind = type(result)
    if hasattr(kind, "__await__"):
        import asyncio

        return asyncio.run(_awaited(result, items))
    if hasattr(kind, "__anext__"):
        import asyncio

        return asyncio.run(_drained(result, items))
    if hasattr(kind, "gi_frame"):
        return _drawn(result, items)
    return result


def _drawn(result: Any, items: Items | None) -> list[Any]:
    return list(result) if items is None else [_sent(item, items.send) for item in result]


async def _awaited(result: Any, items: Items | None) -> Any:
    """A coroutine may give a generator, too."""
    value = await result
    kind = type(value)
    if hasattr(kind, "__anext__"):
        return await _drained(value, items)
    return _drawn(value, items) if hasattr(kind, "gi_frame") else value


async def _drained(result: Any, items: Items | None) -> list[Any]:
    if items is None:
        return [item async for item in result]
    return [_sent(item, items.send) async for item in result]


def _sent(item: Any, send: Callable[[Any], None]) -> Any:
    send(item)
    return item
