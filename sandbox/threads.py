"""Threads for what would keep an event loop from its other work: files, and values that take long to read.

Those that the loop itself has are the host program's, which may fill them all with what waits for calls of ours. So
nothing that a call waits for is done there. Where the process may have no more threads, the work is done on the loop:
it is held up, and no outcome is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import Final, Generic, TypeVar

Result = TypeVar("Result")
_MOST_AT_ONCE: Final = 8


class Threads:
    """Those of one engine, started when they are needed."""

    def __init__(self) -> None:
        self._many = ThreadPoolExecutor(_MOST_AT_ONCE, "sandbox-files")
        self._single = ThreadPoolExecutor(1, "sandbox-values")

    async def do(self, work: Callable[[], Result]) -> Result:
        """The result of what waits for a disk."""
        return await _done(work, self._many)

    async def do_in_turn(self, work: Callable[[], Result]) -> Result:
        """The result of what takes its time to work out; one at a time, and no disk waits for it."""
        return await _done(work, self._single)

    def close(self) -> None:
        """End them, once they have done what they are at."""
        self._many.shutdown(wait=False)
        self._single.shutdown(wait=False)


async def in_own_thread(work: Callable[[], Result]) -> Result:
    """The result of what is rare and takes long, done in a thread that it has for itself."""
    own = ThreadPoolExecutor(1, "sandbox-work")
    try:
        return await _done(work, own)
    finally:
        own.shutdown(wait=False)


async def _done(work: Callable[[], Result], executor: ThreadPoolExecutor) -> Result:
    once = _Once(work)
    try:
        asyncio.get_running_loop().run_in_executor(executor, once.do)
    except RuntimeError:  # no more threads; but it is in the queue of those that there are
        once.do()
    return await asyncio.wrap_future(once.result)


class _Once(Generic[Result]):
    """Some work that is done by whoever comes to it first."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self.result: Future[Result] = Future()
        self._work = work
        self._context = copy_context()
        self._is_taken = Lock()

    def do(self) -> None:
        """Do it, unless somebody does, or nobody waits for it any more."""
        if not self._is_taken.acquire(blocking=False) or not self.result.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._work)
        except BaseException as error:
            self.result.set_exception(error)
        else:
            self.result.set_result(result)
