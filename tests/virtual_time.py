"""An event loop whose clock does not wait: when nothing is ready, the clock jumps to the next timer.

With backends that are all in memory, a test of a minute's patience takes no time and always happens in the same order.
A loop with nothing left to do fails instead of hanging. While a thread works, the clock stands still and the loop
really waits for that thread.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
_PATIENCE_S = 60.0


class _ImpatientSelector(selectors.SelectSelector):
    """A selector that never waits, and adds up the time that waiting would have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0
        self.in_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.in_threads and timeout != 0:
            return super().select(_PATIENCE_S)
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everything waits for something that never comes")
        self.waited += 0 if ready or timeout is None else max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on the virtual clock."""

    def __init__(self) -> None:
        self._impatient = _ImpatientSelector()
        super().__init__(self._impatient)

    def time(self) -> float:
        return self._impatient.waited

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Run in a thread that the clock knows of."""
        future = super().run_in_executor(executor, func, *args)
        self._impatient.in_threads += 1
        future.add_done_callback(self._note_done)
        return future

    async def shutdown_default_executor(self, *_: Any) -> None:
        """Wait in a thread for the other threads."""
        self._impatient.in_threads += 1
        await super().shutdown_default_executor()

    def _note_done(self, _: object) -> None:
        self._impatient.in_threads -= 1


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine as `asyncio.run` does, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
