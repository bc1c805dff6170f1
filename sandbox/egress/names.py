"""Lookups of names, with the host's own resolver, in a bounded number of threads.

The resolver blocks and cannot be interrupted, so it runs in daemon threads: a call that ends leaves its lookup behind,
and the thread ends when the resolver gives up. Further lookups wait while all threads are busy.
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

_MAX_THREADS: Final = 8


class Names:
    """The resolver of a box, on a single event loop."""

    def __init__(self, max_threads: int = _MAX_THREADS) -> None:
        self._room = asyncio.Semaphore(max_threads)

    async def look_up(self, name: str) -> list[Address]:
        """Return all addresses of a name; raise `OSError` if it has none."""
        found = await self._aside(lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(read_address(str(address[0])) for *_, address in found))

    async def own_addresses(self) -> frozenset[Address]:
        """Return the present addresses of this machine's interfaces."""
        return await self._aside(_own_addresses)

    async def _aside(self, ask: Callable[[], Answer]) -> Answer:
        """Run a blocking function in a thread."""
        # The thread occupies its slot until it ends, even if the caller has gone.
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        thread = threading.Thread(target=self._ask, args=(ask, loop, answer), name="names", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the process has reached its limit of threads
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
