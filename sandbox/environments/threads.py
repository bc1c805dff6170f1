"""Work in threads, for those who may be cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def to_its_end(work: Callable[[], Result]) -> Result:
    """Do it in a thread. That goes on when nobody waits for it any more; and what it opens must be closed, what it is
    about to give a name in the store must not be removed under its hands. So who is cancelled waits for its end."""
    under_way = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(under_way)
    finally:
        while not under_way.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({under_way})
