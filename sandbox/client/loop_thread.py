"""An event loop in a thread of its own, for programs that have none.

Callers hand work to the loop and only wait for it. A KeyboardInterrupt, which Python raises in the main thread between
any two of its steps, therefore meets either work that never began or a task that can be cancelled.
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

from sandbox.errors import BackendUnavailable, CallCancelled, EngineClosed, SpecError

Result = TypeVar("Result")
_GRACE_S: Final = 5.0


class BackgroundLoop:
    """Runs coroutines for any number of threads until it is closed."""

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
        # Reentrant: the garbage collector may run `leave` in a thread that holds the lock.
        self._lock = threading.RLock()
        self._is_closed = False
        self._ending: Future[None] | None = None

    def wait(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Run the work on the loop and return its result, in any thread but the loop's own.

        A KeyboardInterrupt cancels the work, waits for its end, and goes on with its `CallCancelled` as the cause.
        """
        if self._is_elsewhere:
            raise EngineClosed(
                "the engine belongs to another process, from which this one was forked",
                remedy="open an engine in each process, after the fork",
            )
        if threading.get_ident() == self._thread.ident:
            raise SpecError(
                "the engine cannot wait for itself: this is its own thread, and all calls depend on it",
                remedy="call it from another thread; functions that it calls, such as on_progress, must return at once",
            )
        future, begun = Future[Result](), list[asyncio.Task[None]]()
        try:
            self._hand_over(work, future, begun)
            return future.result()
        except BaseException as interrupt:
            if future.done():
                raise
            cause = asyncio.run_coroutine_threadsafe(_end(begun), self.loop).result()
            if cause is None:
                raise
            raise interrupt from cause

    def leave(self, events: AsyncGenerator[Any]) -> None:
        """Close a stream. The garbage collector may call this at any time and in any thread."""
        if self._is_closed or self._is_elsewhere or not self._thread.is_alive() or sys.is_finalizing():
            return
        if threading.current_thread() is self._thread:
            # Waiting on the loop's own thread would block it for good.
            asyncio.run_coroutine_threadsafe(events.aclose(), self.loop)
            return
        with suppress(EngineClosed):
            self.wait(events.aclose)

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Run `last`, wait for everything else, and end the thread. In a forked process, there is nothing to end.

        After an interrupt, the next call of `close` finishes the rest.
        """
        if self._is_elsewhere:
            return
        with self._lock:
            self._is_closed = True
            if self._ending is None:
                self._ending = asyncio.run_coroutine_threadsafe(self._finish(last), self.loop)
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
        """Whether this process is a fork, in which the thread does not run and the lock may be held for good."""
        return os.getpid() != self._process

    def _hand_over(
        self, work: Callable[[], Awaitable[Result]], future: Future[Result], begun: list[asyncio.Task[None]]
    ) -> None:
        """Have the loop begin the work. `close` sees all of it to its end."""
        with self._lock:
            if not self._is_closed:
                # Not `run_coroutine_threadsafe`: a SystemExit in a callback of the user would end the loop's thread.
                self.loop.call_soon_threadsafe(lambda: begun.append(self.loop.create_task(_do(work, future))))
                return
        future.set_exception(EngineClosed("the engine is closed", remedy="open a new one"))

    async def _finish(self, last: Callable[[], Awaitable[None]]) -> None:
        await last()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        if waiting:
            await asyncio.wait(waiting, timeout=_GRACE_S)
        await self.loop.shutdown_asyncgens()


async def _do(work: Callable[[], Awaitable[Result]], future: Future[Result]) -> None:
    """Do the work, and pass its result or its error on to the thread that waits."""
    try:
        result = await work()
    except asyncio.CancelledError:
        future.cancel()
        raise
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


async def _end(begun: list[asyncio.Task[None]]) -> CallCancelled | None:
    return await end_task(begun[0]) if begun else None


async def end_task(task: asyncio.Task[Any]) -> CallCancelled | None:
    """Cancel a task, wait for its end, and return the outcome that its cancellation carries, if any."""
    task.cancel()
    await asyncio.wait([task])
    try:
        task.result()
    except asyncio.CancelledError as cancelled:
        return CallCancelled.of(cancelled)
    except BaseException:
        return None
    return None
