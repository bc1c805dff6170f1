"""Shared and uninterruptible work: one task for many callers, and threads that must come to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox.threads import in_own_thread

Result = TypeVar("Result")


async def to_its_end(work: Callable[[], Result]) -> Result:
    """Do the work in a thread, and wait for its end even if cancelled.

    A thread goes on after a cancellation. The caller must not close or remove meanwhile what the thread still uses.
    """
    under_way = asyncio.ensure_future(in_own_thread(work))
    try:
        return await asyncio.shield(under_way)
    finally:
        while not under_way.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({under_way})


async def gone(task: asyncio.Task[Any]) -> None:
    """End it, if it has not ended, and see it gone, whatever it comes to."""
    if not task.cancelling():  # a second time would interrupt what it does to end
        task.cancel()
    try:
        await asyncio.wait({task})
    finally:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # asyncio logs an error that is never retrieved


@dataclass(slots=True)
class _Shared:
    task: asyncio.Task[Any]
    waiting: int = 0


class SharedTasks:
    """Tasks by key; used from one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Shared] = {}
        self._ending: set[asyncio.Task[Any]] = set()

    async def once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of the one task for this key; it goes on as long as any caller waits, and no longer."""
        shared = self._under_way.get(key)
        if shared is None:
            shared = self._under_way[key] = _Shared(asyncio.create_task(work()))
            shared.task.add_done_callback(_retrieve_error)
        shared.waiting += 1
        try:
            result: Result = await asyncio.shield(shared.task)
            return result
        finally:
            shared.waiting -= 1
            if not shared.waiting and self._under_way.get(key) is shared:
                del self._under_way[key]
                await self._end(shared.task)

    async def settle(self) -> None:
        """Wait until every task without a caller has ended."""
        while self._ending:
            await asyncio.wait(set(self._ending))

    async def _end(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            await asyncio.wait({task})


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    # asyncio logs an error that is never retrieved, and a task without callers has none to retrieve it.
    if not task.cancelled():
        task.exception()
