"""Threads for work that would block an event loop: files, and values that take long to read.

The loop's own default threads belong to the host program, which may fill all of them with work that waits for calls of
the engine. So the engine never waits for the default threads. If the process cannot start another thread, the work runs
on the loop: the loop is blocked for that time, and no outcome is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import Final, Generic, TypeVar

Result = TypeVar("Result")
_MAX_THREADS: Final = 8


class Threads:
    """The threads of an engine, started when they are needed."""

    def __init__(self) -> None:
        self._many = ThreadPoolExecutor(_MAX_THREADS, "sandbox-files")
        self._single = ThreadPoolExecutor(1, "sandbox-values")

    async def do(self, work: Callable[[], Result]) -> Result:
        """Return the result of work that waits for a disk."""
        return await _done(work, self._many)

    async def do_in_turn(self, work: Callable[[], Result]) -> Result:
        """Return the result of long computations, which run one at a time and never delay `do`."""
        return await _done(work, self._single)

    def close(self) -> None:
        """End the threads after their current work."""
        self._many.shutdown(wait=False)
        self._single.shutdown(wait=False)


async def in_own_thread(work: Callable[[], Result]) -> Result:
    """Return the result of rare, long work, which runs in a thread of its own."""
    own = ThreadPoolExecutor(1, "sandbox-work")
    try:
        return await _done(work, own)
    finally:
        own.shutdown(wait=False)


async def _done(work: Callable[[], Result], executor: ThreadPoolExecutor) -> Result:
    once = _Once(work)
    try:
        asyncio.get_running_loop().run_in_executor(executor, once.do)
    except RuntimeError:  # the process has no more threads, but the work is already in the queue of the existing ones
        once.do()
    return await asyncio.wrap_future(once.result)


class _Once(Generic[Result]):
    """Work that runs once, in the first thread that starts it."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self.result: Future[Result] = Future()
        self._work = work
        self._context = copy_context()
        self._is_taken = Lock()

    def do(self) -> None:
        """Run the work, unless another thread does or the waiting caller is gone."""
        if not self._is_taken.acquire(blocking=False) or not self.result.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._work)
        except BaseException as error:
            self.result.set_exception(error)
        else:
            self.result.set_result(result)
