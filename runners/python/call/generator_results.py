"""The results of coroutines and generators.

A coroutine is awaited on a new event loop. The items of a generator are collected in a list, which is the value of the
call. For a caller that follows the call, each item is also sent at once, ahead of the reply and on the same pipe, with
a mark in its head. The number and size of sent items is bounded; the list at the end has all of them.
"""

from __future__ import annotations

import os

from call import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ITEM = 1 << 31
"""The mark in the head of an item."""
MAX_ITEMS = 10000
_HEAD = 4


class ItemSender:
    """Sends items of a generator: at most `MAX_ITEMS`, and `limit` bytes in all."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._room = limit
        self._left = MAX_ITEMS

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
    """Write all data; the pipe may accept it in pieces."""
    while data:
        data = data[os.write(descriptor, data) :]


def finish(result: Any, items: ItemSender | None = None) -> Any:
    """Return the value of a result: await a coroutine, and collect a generator."""
    kind = type(result)
    if hasattr(kind, "__await__"):
        import asyncio

        return asyncio.run(_await(result, items))
    if hasattr(kind, "__anext__"):
        import asyncio

        return asyncio.run(_collect_async(result, items))
    if hasattr(kind, "gi_frame"):
        return _collect(result, items)
    return result


def _collect(result: Any, items: ItemSender | None) -> list[Any]:
    return list(result) if items is None else [_send(item, items.send) for item in result]


async def _await(result: Any, items: ItemSender | None) -> Any:
    value = await result
    kind = type(value)
    if hasattr(kind, "__anext__"):  # a coroutine may return a generator
        return await _collect_async(value, items)
    return _collect(value, items) if hasattr(kind, "gi_frame") else value


async def _collect_async(result: Any, items: ItemSender | None) -> list[Any]:
    if items is None:
        return [item async for item in result]
    return [_send(item, items.send) async for item in result]


def _send(item: Any, send: Callable[[Any], None]) -> Any:
    send(item)
    return item
