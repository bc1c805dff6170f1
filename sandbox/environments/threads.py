"""Waiting for what must come to its end, for those who may be cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from sandbox.threads import in_own_thread

Result = TypeVar("Result")


async def to_its_end(work: Callable[[], Result]) -> Result:
    """Do it in a thread. That goes on when nobody waits for it any more; and what it opens must be closed, what it is
    about to give a name in the store must not be removed under its hands. So who is cancelled waits for its end."""
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
            task.exception()  # nobody is told of an error that nobody waited for
