"""Looking names up, with the host's own resolver, in a bounded number of threads.

The resolver blocks and cannot be interrupted, so it is asked in threads that nobody waits for: a call that ends leaves
its question behind, and the thread with it ends when the resolver gives up. While all threads are taken, others wait.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from sandbox.egress.addresses import Address, read_address

Answer = TypeVar("Answer")

_MOST_THREADS: Final = 8


class Names:
    """The resolver of one box; made on, and used from, one event loop."""

    def __init__(self, most_threads: int = _MOST_THREADS) -> None:
        self._room = asyncio.Semaphore(most_threads)

    async def look_up(self, name: str) -> list[Address]:
        """All addresses of a name; `OSError` when it has none."""
        found = await self._aside(lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(read_address(str(address[0])) for *_, address in found))

    async def own_addresses(self) -> frozenset[Address]:
        """Those of this machine's interfaces, as they are now."""
        return await self._aside(_own_addresses)

    async def _aside(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of what blocks. The room is free again when its thread has ended, whoever still waits."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        thread = threading.Thread(target=self._ask, args=(ask, loop, answer), name="names", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # this process has as many as it may
            self._room.release()
            raise OSError(str(error)) from None
        return await answer

    def _ask(self, ask: Callable[[], Answer], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Answer]) -> None:
        try:
            settle = partial(answer.set_result, ask())
        except Exception as error:
            settle = partial(answer.set_exception, error)
        try:
            loop.call_soon_threadsafe(self._settle, answer, settle)
        except RuntimeError:  # the loop has been closed meanwhile
            return

    def _settle(self, answer: asyncio.Future[Answer], settle: Callable[[], None]) -> None:
        self._room.release()
        if not answer.done():
            settle()


def _own_addresses() -> frozenset[Address]:
    import psutil

    families = (socket.AF_INET, socket.AF_INET6)
    known = (each for found in psutil.net_if_addrs().values() for each in found if each.family in families)
    return frozenset(read_address(each.address) for each in known)
