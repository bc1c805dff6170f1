"""An event loop in a thread of its own, for programs that have none.

Work is begun on the loop, whoever asks for it only waits. So an interrupt, which Python raises in the main thread
between any two of its steps, meets either work that was not begun or a task that can be cancelled, and nothing between.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from sandbox.errors import BackendUnavailable, EngineClosed, SpecError

Result = TypeVar("Result")
_GRACE_S: Final = 5.0


class BackgroundLoop:
    """Does what it is asked to, from any number of threads, until it is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="sandbox", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.loop.close()
            raise BackendUnavailable(
                f"the engine's own thread cannot be started: {error}",
                remedy="let the engine's user have more processes: raise `ulimit -u`",
            ) from None
        self._process = os.getpid()
        self._lock = threading.RLock()  # what the collector ends may need it while its thread has it
        self._is_closed = False
        self._ending: Future[None] | None = None

    def wait(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do it, and wait for it, in any thread but our own. A KeyboardInterrupt here cancels it there, and goes on
        when it has ended, with what its cancellation has to tell."""
        if self._is_elsewhere:
            raise EngineClosed(
                "the engine was opened in another process, which this one was forked from",
                remedy="open one in each process, after it was forked",
            )
        if threading.current_thread() is self._thread:
            raise SpecError(
                "the engine was asked to wait for itself: this is its own thread, which all calls depend on",
                remedy="ask it from another thread; what it calls itself, such as on_progress, is to return at once",
            )
        future, begun = Future[Result](), list[asyncio.Task[None]]()
        try:
            self._hand_over(work, future, begun)
            return future.result()
        except BaseException as interrupt:
            if not future.done():
                vars(interrupt).update(asyncio.run_coroutine_threadsafe(_end_of(begun), self.loop).result())
            raise

    def leave(self, events: AsyncGenerator[Any]) -> None:
        """End a stream. One that nobody holds any more is ended by the collector, at any time and in any thread: in
        ours nothing can be waited for, and once we are closed, or that thread is gone, nothing is left to end."""
        if self._is_closed or self._is_elsewhere or not self._thread.is_alive() or sys.is_finalizing():
            return
        if threading.current_thread() is self._thread:
            asyncio.run_coroutine_threadsafe(events.aclose(), self.loop)
            return
        with suppress(EngineClosed):
            self.wait(events.aclose)

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Do that last, see everything else to its end, and end the thread; in a fork, there is nothing to end. Whoever
        is interrupted here leaves the rest to the next who closes."""
        if self._is_elsewhere:
            return
        with self._lock:
            self._is_closed = True
            if self._ending is None:
                self._ending = asyncio.run_coroutine_threadsafe(self._end(last), self.loop)
        try:
            self._ending.result()
        finally:
            if self._ending.done():
                self._end_thread()

    def _end_thread(self) -> None:
        with self._lock:
            if not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join()
                self.loop.close()

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this process was forked from the one that has the thread, perhaps while somebody had the lock."""
        return os.getpid() != self._process

    def _hand_over(
        self, work: Callable[[], Awaitable[Result]], future: Future[Result], begun: list[asyncio.Task[None]]
    ) -> None:
        """Have the loop begin it; what was handed over before `close` has an end."""
        with self._lock:
            if not self._is_closed:
                self.loop.call_soon_threadsafe(lambda: begun.append(self.loop.create_task(_told(work, future))))
                return
        future.set_exception(EngineClosed("the engine is closed", remedy="open a new one"))

    async def _end(self, last: Callable[[], Awaitable[None]]) -> None:
        await last()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        if waiting:
            await asyncio.wait(waiting, timeout=_GRACE_S)
        await self.loop.shutdown_asyncgens()


async def _told(work: Callable[[], Awaitable[Result]], future: Future[Result]) -> None:
    """Do it, and tell whoever waits in another thread what became of it."""
    try:
        result = await work()
    except asyncio.CancelledError:
        future.cancel()
        raise
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


async def _end_of(begun: list[asyncio.Task[None]]) -> dict[str, Any]:
    return await cut_short(begun[0]) if begun else {}


async def cut_short(task: asyncio.Task[Any]) -> dict[str, Any]:
    """Cancel it, and wait for its end; what its cancellation has to tell. How it ended otherwise, nobody asks."""
    task.cancel()
    await asyncio.wait([task])
    try:
        task.result()
    except asyncio.CancelledError as cancelled:
        return vars(cancelled)
    except BaseException:
        return {}
    return {}
